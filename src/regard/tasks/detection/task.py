"""Detecting objects: pictures in, boxes, classes and masks out."""

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


class Detection(PictureTask):
    """From pictures to the things in them."""

    entry = BY_NAME["detection"]
    metrics = ("ap",)
    unread = (
        *("r_drop", "teacher_forcing", "coverage_loss", "guided", "label_smoothing"),
        *("flip", "shift", "doubly_stochastic"),
    )
    compares_losses = False
    served_as = path = "detect"
    does = "finds things in pictures"

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an image encoder and object queries over it."""
        from regard.vision.detection.detector import make_detector

        return make_detector(config, target_size)

    def draw(self, model: Any) -> None:
        """Draw first weights as the model itself does."""
        model.draw()

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
        from regard.tasks.detection.training import open_data

        return open_data(config, folder, sources, say)

    def load(self, folder: Path, device: str) -> Any:
        """Open a model that is ready to be used."""
        from regard.tasks.detection.predictor import DetectionPredictor

        return DetectionPredictor.load(folder, device)

    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score boxes and masks."""
        from regard.tasks.detection.evaluation import evaluate_objects

        return evaluate_objects(reader, pictures, batch_size=asked.batch_size)

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test pictures."""
        from regard.tasks.detection.comparison import compare

        return compare(folder, job, self.open_test(job.test, open_folder(folder)), options)

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/…`."""
        from regard.tasks.detection.http import routes

        return routes(models, queue, limits, uploads)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where the model looks in a picture."""
        from regard.tasks.detection.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what ONNX graphs are made of."""
        from regard.tasks.detection.export import exportable

        return exportable(folder, config)


TASK = Detection()
