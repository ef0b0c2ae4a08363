"""Classifying pictures: pictures in, classes out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.class_labels import Labels
from regard.data.pictures import Pictures
from regard.evaluation.report import Report
from regard.models.model_folder import open_folder
from regard.task import EvaluationRequest, Say, TrainingData
from regard.task_table import BY_NAME
from regard.tasks.picture_task import PictureTask


class ImageClassification(PictureTask):
    """From pictures to classes."""

    entry = BY_NAME["image_classification"]
    metrics = ("accuracy",)
    unread = ("r_drop", "teacher_forcing", "coverage_loss", "guided", "doubly_stochastic")
    served_as = path = "classify"
    does = "tells what pictures are of"

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an image encoder and one linear map to classes."""
        from regard.vision.build import make_classifier

        return make_classifier(config, target_size)

    def read_vocabulary(self, folder: Path) -> Labels:
        """Read the names of the classes."""
        return Labels.load(folder)

    def sizes(self, vocabulary: Labels) -> tuple[int, int]:
        """Return how many classes there are; nothing is read by number."""
        return 0, vocabulary.size

    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Labels, TrainingData]:
        """Make vocabulary and caches in a model folder, or take those that are there."""
        from regard.tasks.image_classification.training import open_data

        return open_data(config, folder, sources, say)

    def load(self, folder: Path, device: str) -> Any:
        """Open a model that is ready to be used."""
        from regard.tasks.image_classification.predictor import ImageClassPredictor

        return ImageClassPredictor.load(folder, device)

    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score classes."""
        from regard.tasks.image_classification.evaluation import evaluate_classes

        return evaluate_classes(reader, pictures, batch_size=asked.batch_size)

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test pictures."""
        from regard.tasks.image_classification.comparison import compare

        return compare(folder, job, self.open_test(job.test, open_folder(folder)), options)

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/…`."""
        from regard.tasks.image_classification.http import routes

        return routes(models, queue, limits, uploads)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where the model looks in a picture."""
        from regard.tasks.image_classification.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what ONNX graphs are made of."""
        from regard.tasks.image_classification.export import exportable

        return exportable(folder, config)


TASK = ImageClassification()
