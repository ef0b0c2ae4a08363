"""Captioning: pictures in, texts out."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.pictures import Pictures
from regard.data.tokenizers import Tokenizers
from regard.evaluation.report import Report
from regard.models.model_folder import open_folder
from regard.task import EvaluationRequest, Say, TrainingData
from regard.task_table import BY_NAME
from regard.tasks.picture_task import PictureTask


class Captioning(PictureTask):
    """From pictures to texts."""

    entry = BY_NAME["captioning"]
    metrics = ("bleu", "chrf", "exact")
    unread = ("flip", "shift")
    scoring_options = frozenset(("--layer", "--head", "--shift", "--beam", "--set", "--translations"))
    attend_options = frozenset(("--features", "--beam", "--set"))
    served_as = path = "caption"
    does = "describes pictures"

    def records_steps(self, model: ModelConfig) -> bool:
        """Not where norms are over the pictures of a batch: those that fill it up would count."""
        return model.image is None or model.image.normalise != "batch"

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an image encoder and a decoder."""
        from regard.vision.build import make_captioner

        return make_captioner(config, target_size)

    def read_vocabulary(self, folder: Path) -> Tokenizers:
        """Read the tokenizers; captions are the target."""
        return Tokenizers.load(folder)

    def sizes(self, vocabulary: Tokenizers) -> tuple[int, int]:
        """Return the sizes of both vocabularies."""
        return vocabulary.source.size, vocabulary.target.size

    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the pictures; refuse to guide looks where nobody knows where to."""
        from regard.tasks.captioning.training import check_gold

        sources = super().open_sources(config, resumed)
        if sources.train is not None:
            check_gold(config, sources.train)
        return sources

    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Tokenizers, TrainingData]:
        """Make vocabulary and caches in a model folder, or take those that are there."""
        from regard.tasks.captioning.training import open_data

        return open_data(config, folder, sources, say, few_shapes)

    def load(self, folder: Path, device: str) -> Any:
        """Open a model that is ready to be used."""
        from regard.tasks.captioning.predictor import CaptionPredictor

        return CaptionPredictor.load(folder, device)

    def score(self, reader: Any, pictures: Pictures, asked: EvaluationRequest) -> Report:
        """Score captions, and where the model looked while it wrote them."""
        from regard.cli.options import search_options
        from regard.tasks.captioning.evaluation import evaluate_captions

        options = search_options(reader.options, asked.changes)
        return evaluate_captions(
            reader, pictures, beam=asked.beam, options=options, batch_size=asked.batch_size, reading=asked.reading
        )

    def references(self, pictures: Pictures) -> list[tuple[str, ...]]:
        """Return all that is said of each picture."""
        return [pictures.captions(index) for index in range(len(pictures))]

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test pictures."""
        from regard.tasks.captioning.comparison import compare

        return compare(folder, job, self.open_test(job.test, open_folder(folder)), options)

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/…`."""
        from regard.tasks.captioning.http import routes

        return routes(models, queue, limits, uploads)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where the model looks in a picture."""
        from regard.tasks.captioning.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what ONNX graphs are made of."""
        from regard.tasks.captioning.export import exportable

        return exportable(folder, config, out)


TASK = Captioning()
