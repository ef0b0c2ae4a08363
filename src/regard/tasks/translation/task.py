"""Translating: texts in, texts out. What reads is `regard.decoding.translator.Translator`."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig
from regard.data.builtin_corpora import corpora
from regard.data.pictures import are_pictures
from regard.data.tokenizers import Tokenizers
from regard.errors import ConfigError
from regard.evaluation.report import Report
from regard.models.build import assemble, initialise
from regard.task import EvaluationRequest, Say, Task, TrainingData
from regard.task_table import BY_NAME

EXAMPLES = 3
"""Texts to try a model with, where it was trained on an embedded corpus."""
SHORT = range(10, 70)
"""Characters of those."""


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
        """Refuse pictures for a model that reads texts."""
        for name in ("train", "valid"):
            parts = getattr(config.data, name)
            if are_pictures(parts):
                what = f" (preset {config.preset})" if config.preset else ""
                raise ConfigError(
                    f"data.{name}={parts[0]} has pictures, and this model{what} reads texts: take one that reads "
                    "pictures (regard list visions), such as --preset captioner-small."
                )

    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make an encoder and a decoder."""
        return assemble(config, source_size, target_size)

    def draw(self, model: nn.Module) -> None:
        """Draw first weights."""
        initialise(model)

    def read_vocabulary(self, folder: Path) -> Tokenizers:
        """Read the tokenizers of both sides."""
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
        """Make tokenizers and token caches in a model folder, or take those that are there."""
        from regard.tasks.translation.training import open_data

        return open_data(config, folder, sources, say, few_shapes)

    def finish(self, folder: Path) -> None:
        """Learn which words go together, for searches with a shortlist."""
        from regard.tasks.translation.training import list_words

        list_words(folder)

    def try_it(self, config: Config, folder: Path) -> str:
        """Say how to look at a translation."""
        to = f" --to {config.data.tagged[0].partition('=')[0]}" if config.data.tagged else ""
        if config.model.attention is None:
            return f'Try it with: echo "a sentence of yours" | regard translate {folder}{to}'
        return f'Look at it with: regard attend {folder} "a sentence of yours"{to}'

    def load(self, folder: Path, device: str) -> Any:
        """Open a translator."""
        from regard.decoding.translator import Translator

        return Translator.load(folder, device)

    def evaluate(self, folder: Path, asked: EvaluationRequest) -> Report:
        """Score translations of a corpus."""
        from regard.tasks.translation.evaluation import evaluate_folder

        return evaluate_folder(folder, asked)

    def open_test(self, test: Any, config: Config) -> Any:
        """Open the corpus as texts."""
        return test.open()

    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return the references of the corpus, and a handful of its sentences."""
        from regard.tasks.translation.comparison import find_subject

        return find_subject(test.open(), terms)

    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Translate the test corpus."""
        from regard.tasks.translation.comparison import compare

        return compare(folder, job, options)

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Tell the tags, and held-out texts of the embedded corpus that a model was trained on, if it was on one."""
        tags = list(reader.tokenizers.tags)
        name = (*config.data.train, "")[0].partition(":")[0]
        if name not in corpora or tags:
            return {"tags": tags}
        short = (pair.source for pair in corpora[name]("test", 100, 1) if len(pair.source) in SHORT)
        return {"tags": tags, "examples": list(islice(short, EXAMPLES))}

    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return `POST /api/translate`."""
        from regard.tasks.translation.http import routes

        return routes(models, queue, limits)

    def attend(self, folder: Path, asked: Any) -> None:
        """Show where a translator looks."""
        from regard.tasks.translation.attend import attend

        attend(folder, asked)

    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return encoder and decoder, with the tokenizers."""
        from regard.tasks.translation.export import exportable

        return exportable(folder, config, out)


TASK = Translation()
