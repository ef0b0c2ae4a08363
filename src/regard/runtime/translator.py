"""Translate texts with an exported translator, or continue them with an exported language model."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from regard.errors import ConfigError, DataError
from regard.runtime.export_entries import Entries
from regard.runtime.graphs import MANIFEST
from regard.runtime.hypotheses import Hypothesis
from regard.runtime.search_options import SearchOptions
from regard.runtime.text_batches import batches, padded
from regard.runtime.tokenizer import SUBWORDS, UNKNOWN, Tokenizer
from regard.runtime.trace import SPECIAL, Trace
from regard.runtime.unknown_words import copy_units, replace_words, replaces
from regard.runtime.writer import Writer

BATCH = 16
"""Default batch size, in sentences."""

logger = logging.getLogger("regard")


@dataclass(frozen=True, eq=False)
class Translation:
    """The translation of one text."""

    text: str
    score: float
    """The ranking score: log-probability after penalties."""
    tokens: tuple[str, ...]
    """The generated tokens as displayed, with the end token if the model generated it."""
    attention: Trace
    """The attention of each token."""
    n_best: list["Translation"] = field(default_factory=list)
    """Further hypotheses, best first, if more than one was requested."""


class Translator:
    """An exported translator or language model; its results are those of `regard.load` with the model folder."""

    def __init__(self, export: Mapping[str, Any], folder: Path, threads: int = 1) -> None:
        entries = Entries(export, folder / MANIFEST)
        self._reads, self._copies = entries.flag("reads"), "copies" in entries and entries.flag("copies")
        self._most_read = entries.part("search").whole_or_none("most_read", least=2)
        self._source, self._target = (Tokenizer(export.get(side), folder, side) for side in ("source", "target"))
        self._writer = Writer(export, folder, threads)
        self._vocabulary, self.options = self._writer.vocabulary, self._writer.options
        """The search settings of the model."""

    @property
    def task(self) -> str:
        """What the model does: translation, or language_modelling where there is no source to read."""
        return "translation" if self._reads else "language_modelling"

    @property
    def tags(self) -> tuple[str, ...]:
        """The languages that `to` can name; empty for a model that writes only one."""
        return self._source.tags

    def translate(
        self,
        texts: Sequence[str],
        *,
        beam: int | None = None,
        n_best: int = 1,
        prefix: Sequence[str] | None = None,
        to: str | None = None,
        batch_size: int = BATCH,
        look: bool = True,
        options: SearchOptions | None = None,
    ) -> list[Translation]:
        """Translate texts; the result has one translation for each, in order.

        `options` default to the model's own; `beam` overrides them. Each translation starts with its `prefix` (an empty
        one leaves it free). `to` is the target language, for a multilingual model and texts without tags. A text of
        white space has an empty translation. With `look=False`, translations have no attention, which is faster.
        `batch_size` is the number of sentences searched at once. A language model continues the texts instead.
        """
        if isinstance(texts, str):
            raise DataError("translate takes a list of texts, got a single one: write translate([text]).")
        if prefix is not None and len(prefix) != len(texts):
            raise ConfigError(f"There are {len(texts)} texts but {len(prefix)} prefixes: give one for each.")
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}; it must be at least 1.")
        options = options or self.options
        options = options if beam is None else replace(options, beam=beam)
        options.check(n_best)
        texts = [self._source.tagged(text, to) for text in self._trimmed(texts)]
        sources, starts = self._encode(texts, prefix)
        replacing = options.replace_unknown and replaces(self._source, self._target, self._reads)
        banned = [token for token in self._vocabulary.banned if not (replacing and token == UNKNOWN)]
        found = {row: _nothing() for row, text in enumerate(texts) if self._reads and not text.strip()}
        rows = [row for row in range(len(texts)) if row not in found]
        lengths = [max(len(sources[row]), len(starts[row])) for row in rows]
        for batch in batches(lengths, batch_size):
            chosen = [rows[place] for place in batch]
            tokens, mask = padded([sources[row] for row in chosen], self._vocabulary.padding)
            written = self._writer.write(
                {"source": tokens, "mask": mask},
                options,
                [starts[row] for row in chosen],
                n_best=n_best,
                look=look or replacing,
                banned=banned,
            )
            for row, best in zip(chosen, written, strict=True):
                every = [self._translation(texts[row], sources[row], one, replacing) for one in best]
                found[row] = replace(every[0], n_best=every[1:])
        return [found[row] for row in range(len(texts))]

    def _trimmed(self, texts: Sequence[str]) -> list[str]:
        """Strip texts for subwords: surrounding white space would become a piece that is rare in training."""
        for number, text in enumerate(texts, start=1):
            if any("\ud800" <= character <= "\udfff" for character in text):
                raise DataError(f"Text {number} contains half a character (a lone surrogate): {text!r}.")
        return [text.strip() if self._reads and self._source.kind in SUBWORDS else text for text in texts]

    def _encode(self, texts: Sequence[str], prefix: Sequence[str] | None) -> tuple[list[list[int]], list[list[int]]]:
        """Return source ids and the prefix of each translation."""
        end = self._vocabulary.end
        if self._reads:
            sources = [self._cut([*self._source.encode(text), end], text) for text in texts]
            return sources, [self._target.encode(begun) if begun else [] for begun in prefix or [""] * len(texts)]
        if prefix is not None and any(prefix):
            raise ConfigError("A language model continues the texts themselves: put the prefix there.")
        return [[end] for _ in texts], [self._target.encode(text) for text in texts]

    def _cut(self, ids: list[int], text: str) -> list[int]:
        """Truncate a text with more tokens than the model has positions, with a warning."""
        most = self._most_read
        if most is None or len(ids) <= most:
            return ids
        logger.warning(
            "A text of %d tokens is longer than the %d positions of the model: only its beginning is read. %.40s…",
            len(ids) - 1,
            most - 1,
            text,
        )
        return [*ids[: most - 1], ids[-1]]

    def _translation(self, text: str, source: list[int], hypothesis: Hypothesis, replacing: bool) -> Translation:
        trace = self._trace(source, hypothesis)
        written = self._target.decode(hypothesis.tokens)
        if replacing and UNKNOWN in hypothesis.tokens and trace.weights.shape[0]:
            written = self._replaced(text, source, hypothesis.tokens, written, trace)
        if not self._reads:
            # Return the given text verbatim, even where the vocabulary lacks some of it.
            begun = self._target.decode(hypothesis.tokens[: len(self._target.encode(text))])
            written = text + written.removeprefix(begun)
        return Translation(written, hypothesis.score, trace.target, trace)

    def _trace(self, source: list[int], hypothesis: Hypothesis) -> Trace:
        """Build the trace; a language model's source, its lone end token, is not attended to."""
        read = source if self._reads else []
        side, target = self._source, self._target
        weights = hypothesis.weights[..., : len(read)].transpose(1, 2, 0, 3)
        return Trace(
            tuple(side.pieces(read)),
            tuple(target.pieces(hypothesis.tokens)),
            np.ascontiguousarray(weights),
            tuple(hypothesis.log_probs),
            hypothesis.score,
            source_words=tuple(side.words(read)),
            target_words=tuple(target.words(hypothesis.tokens)),
            special=SPECIAL | {f"<2{tag}>" for tag in side.tags},
        )

    def _replaced(self, text: str, source: list[int], tokens: list[int], written: str, trace: Trace) -> str:
        """Replace unknown tokens by source units; a pointer-generator uses the weights of its last layer."""
        target, read = self._target, self._source.untagged(text)
        if target.kind == "words" and not (self._copies and self._source.kind == target.kind):
            return replace_words(tokens, written, trace, read)
        within = slice(1 if self._source.tags else 0, -1)
        look = trace.look(layer=-1 if self._copies else None)[:, within]
        return copy_units(tokens, target, source[within], self._source.units(read), look)


def _nothing() -> Translation:
    """Return the translation of an empty text."""
    return Translation("", 0.0, (), Trace((), (), np.zeros((1, 1, 0, 0), np.float32), (), 0.0))
