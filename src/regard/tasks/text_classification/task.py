"""Classifying texts: what the package asks of the task."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.pictures import are_pictures
from regard.data.tokenizers import Tokenizers
from regard.errors import ConfigError
from regard.evaluation.report import Report
from regard.task import EvaluationRequest, Objective, Say, Task, TrainingData
from regard.task_table import BY_NAME


class TextClassification(Task):
    """From texts to classes."""

    entry = BY_NAME["text_classification"]
    metrics = ("accuracy", "f1")
    unread = (
        *("r_drop", "teacher_forcing", "coverage_loss", "guided", "doubly_stochastic"),
        *("flip", "shift", "told", "asked"),
    )
    planned = True
    served_as = "classify-text"
    path = "classify-text"
    does = "classifies texts"
    scoring_options = frozenset(("--translations",))

    def check(self, config: Config) -> None:
        """Refuse pictures and tags."""
        for name in ("train", "valid"):
            parts = getattr(config.data, name)
            if are_pictures(parts):
                raise ConfigError(
                    f"data.{name}={parts[0]} has pictures, and this model reads texts: take a preset that classifies "
                    "pictures (regard list visions), such as --preset resnet-small."
                )
        if config.data.tagged:
            raise ConfigError(
                "data.tagged tells translators what to write, and this model writes nothing: give data.train."
            )

    def fitted(self, config: Config) -> Config:
        """Let the target side of the vocabulary hold the names of classes."""
        return replace(config, tokenizer=replace(config.tokenizer, joint=False, target_kind="lines"))

    def records_steps(self, model: ModelConfig) -> bool:
        """No: batches of documents have many shapes."""
        return False

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an encoder, attention with a learned query, and one linear map to classes."""
        from regard.models.text_classifier import make_text_classifier

        return make_text_classifier(config, source_size, target_size)

    def draw(self, model: nn.Module) -> None:
        """Draw first weights."""
        from regard.models.text_classifier import draw

        draw(model)

    def read_vocabulary(self, folder: Path) -> Tokenizers:
        """Read the tokenizer of texts and the names of classes."""
        return Tokenizers.load(folder)

    def sizes(self, vocabulary: Tokenizers) -> tuple[int, int]:
        """Return how many tokens are known, and how many classes."""
        from regard.tasks.text_classification.training import classes_of

        return vocabulary.source.size, len(classes_of(vocabulary))

    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the corpora and read the validation corpus."""
        from regard.tasks.text_sources import open_sources

        return open_sources(config, resumed)

    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Tokenizers, TrainingData]:
        """Make vocabularies and token caches in a model folder, or take those that are there."""
        from regard.tasks.text_classification.training import open_data

        return open_data(config, folder, sources, say)

    def rehearsal(self, model: Any, batch: Any, config: Config) -> tuple[Objective, Any]:
        """Return the loss of classes, and a batch of texts of one class, in sentences of usual length."""
        from regard.tasks.text_classification.training import TextClassObjective, made_up

        return TextClassObjective(model, config.training), made_up(batch, model.hierarchical)

    def try_it(self, config: Config, folder: Path) -> str:
        """Return the command that classifies a text and shades its words by their attention."""
        return f'Try it with: echo "a text of yours" | regard classify {folder} --attention'

    def load(self, folder: Path, device: str) -> Any:
        """Open a classifier."""
        from regard.tasks.text_classification.predictor import TextLabeller

        return TextLabeller.load(folder, device)

    def evaluate(self, reader: Any, asked: EvaluationRequest) -> Report:
        """Score classes."""
        from regard.data.corpus import for_model, open_corpus
        from regard.tasks.text_classification.evaluation import evaluate_texts

        corpus = for_model(open_corpus(asked.parts, asked.split), reads=True)
        return evaluate_texts(reader, list(corpus), corpus.name)

    def open_test(self, test: Any, config: Config) -> Any:
        """Open the corpus as texts."""
        return test.open()

    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return the classes of the corpus, and a handful of its texts."""
        from regard.tasks.translation.comparison import find_subject

        return replace(find_subject(test.open(), terms), references=[])

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test corpus."""
        from regard.tasks.text_classification.comparison import compare

        return compare(folder, job)

    def routes(self, models: Sequence[Any], desk: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/classify-text`."""
        from regard.tasks.text_classification.http import routes

        return routes(models, desk, limits)

    def attend(self, folder: Path, asked: Any) -> None:
        """Shade the words of a text by their attention."""
        from regard.tasks.text_classification.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what the ONNX graph is made of."""
        from regard.tasks.text_classification.export import exportable

        return exportable(folder, config, out)


TASK = TextClassification()
