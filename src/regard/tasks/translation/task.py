"""Translation: texts in, texts out. Inference is in `regard.decoding.translator`."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.builtin_corpora import corpora
from regard.data.languages import check_languages
from regard.data.pictures import are_pictures
from regard.data.tokenizers import Tokenizers
from regard.errors import ConfigError, ModelError
from regard.evaluation.report import Report
from regard.models.build import assemble, initialise
from regard.models.model_folder import CONFIG
from regard.task import EvaluationRequest, Objective, Say, Task, TrainingData
from regard.task_table import BY_NAME

EXAMPLES = 3
"""Number of example texts offered for a model that was trained on an embedded corpus."""
SHORT = range(10, 70)
"""Their length in characters."""


class Translation(Task):
    """From texts to texts."""

    entry = BY_NAME["translation"]
    metrics = ("bleu", "chrf", "exact")
    unread = ("flip", "shift", "doubly_stochastic")
    planned = True
    scoring_options = frozenset(
        {
            *("--with", "--to", "--group", "--beam", "--set", "--plot", "--translations"),
            *("--layer", "--head", "--shift", "--posterior", "--reverse-model", "--symmetrise"),
        }
    )
    attend_options = frozenset(("--target", "--posterior", "--prefix", "--with", "--to", "--beam", "--set"))
    served_as = path = "translate"
    does = "translates texts"

    def check(self, config: Config) -> None:
        """Raise a ConfigError for picture corpora."""
        for name in ("train", "valid"):
            parts = getattr(config.data, name)
            if are_pictures(parts):
                what = f" (preset {config.preset})" if config.preset else ""
                raise ConfigError(
                    f"data.{name}={parts[0]} has pictures, and this model{what} reads texts: take one that reads "
                    "pictures (regard list visions), such as --preset captioner-small."
                )

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Build an encoder and a decoder."""
        return assemble(config, source_size, target_size)

    def draw(self, model: nn.Module) -> None:
        """Initialise the weights."""
        initialise(model)

    def read_vocabulary(self, folder: Path) -> Tokenizers:
        """Load the tokenizers of both sides."""
        return Tokenizers.load(folder)

    def sizes(self, vocabulary: Tokenizers) -> tuple[int, int]:
        """Return the sizes of both vocabularies."""
        return vocabulary.source.size, vocabulary.target.size

    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the corpora and read the validation corpus."""
        from regard.tasks.text_sources import open_sources

        return open_sources(config, resumed)

    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Tokenizers, TrainingData]:
        """Build tokenizers and token caches in a model folder, or reuse those of a resumed run."""
        from regard.tasks.translation.training import open_data

        return open_data(config, folder, sources, say, few_shapes)

    def rehearsal(self, model: Any, batch: Any, config: Config) -> tuple[Objective, Any]:
        """Return the loss of a batch, and the batch as it is."""
        from regard.training.objective import SequenceObjective

        return SequenceObjective(model, config.training), batch

    def finish(self, folder: Path) -> None:
        """Learn the lexical shortlist for fast decoding."""
        from regard.tasks.translation.training import list_words

        list_words(folder)

    def try_it(self, config: Config, folder: Path) -> str:
        """Return a message with a command to try the model, showing its attention if it has any."""
        to = f" --to {config.data.tagged[0].partition('=')[0]}" if config.data.tagged else ""
        if config.model.attention is None:
            return f'Try it with: echo "a sentence of yours" | regard translate {folder}{to}'
        return f'Look at it with: regard attend {folder} "a sentence of yours"{to}'

    def load(self, folder: Path, device: str) -> Any:
        """Load a translator."""
        from regard.decoding.translator import Translator

        return Translator.load(folder, device)

    def evaluate(self, reader: Any, asked: EvaluationRequest) -> Report:
        """Score translations of a corpus."""
        from regard.tasks.translation.evaluation import evaluate_as_asked

        return evaluate_as_asked(reader, asked)

    def open_test(self, test: Any, config: Config) -> Any:
        """Open the test corpus."""
        return test.open()

    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return the references of the test corpus and a few example sentences."""
        from regard.tasks.translation.comparison import find_subject

        return find_subject(test.open(), terms)

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model on the test corpus."""
        from regard.tasks.translation.comparison import compare

        return compare(folder, job, options)

    def check_served(self, folder: Path, config: Config) -> None:
        """Raise a ModelError for languages in the folder's settings that are none."""
        try:
            check_languages(config.data)
        except ConfigError as error:
            raise ModelError(f"{folder / CONFIG}: {error}") from None

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Return the tags and, for a model trained on an embedded corpus, a few of its test sentences."""
        tags = list(reader.tokenizers.tags)
        name = (*config.data.train, "")[0].partition(":")[0]
        if name not in corpora or tags:
            return {"tags": tags}
        short = (pair.source for pair in corpora[name]("test", 100, 1) if len(pair.source) in SHORT)
        return {"tags": tags, "examples": list(islice(short, EXAMPLES))}

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return the router of `POST /api/translate`."""
        from regard.tasks.translation.http import routes

        return routes(models, queue, limits)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show the attention of a translation."""
        from regard.tasks.translation.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return encoder and decoder as two ONNX graphs to export, with the tokenizers."""
        from regard.tasks.translation.export import exportable

        return exportable(folder, config, out)


TASK = Translation()
