"""Mix several corpora, each with a weight: how often an epoch has its pairs.

Tokens are stored once, and the rows of an epoch are drawn: each corpus is an endless sequence of shuffled passes, and
an epoch continues where the previous one stopped. With weight 2 it has each pair twice, with 0.5 another half each
time; after E epochs every pair of a corpus of weight w has occurred ⌊E·w⌋ or ⌈E·w⌉ times.
"""

import re
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.corpus import Corpus
from regard.data.line_files import STDIN
from regard.data.pair import Pair
from regard.errors import ConfigError, DataError

_WEIGHT: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}", re.ASCII)
HEAVIEST: Final = 1_000
"""The maximum weight: the rows of an epoch are held in memory."""
ONE: Final = Fraction(1)


class WeightedCorpus(NamedTuple):
    """A parsed `CORPUS*WEIGHT` or `TAG=CORPUS*WEIGHT`."""

    parts: tuple[str, ...]
    weight: Fraction = ONE
    tag: str = ""


class MixedCorpora(Corpus):
    """The concatenation of several corpora, each pair once; weights apply only when epochs are drawn."""

    def __init__(self, corpora: Sequence[Corpus], weights: Sequence[Fraction] = ()) -> None:
        self._corpora = tuple(corpora)
        self._weights = tuple(weights) or (ONE,) * len(self._corpora)
        self.name = ", ".join(
            corpus.name if weight == ONE else f"{corpus.name} × {shown(weight)}"
            for corpus, weight in zip(self._corpora, self._weights, strict=True)
        )
        self.paired = all(corpus.paired for corpus in self._corpora)

    def __iter__(self) -> Iterator[Pair]:
        return chain.from_iterable(self._corpora)

    @property
    def parts(self) -> tuple[Corpus, ...]:
        """The corpora, in the order of their pairs."""
        return self._corpora

    def identity(self) -> str:
        """Cover the weights too."""
        both = zip(self._weights, self._corpora, strict=True)
        return "\n".join(f"{shown(weight)} {corpus.identity()}" for weight, corpus in both)


class Draws:
    """Draws the rows of an epoch from concatenated corpora with weights: a pure function of seed and epoch."""

    def __init__(self, counts: Sequence[int], weights: Sequence[Fraction], seed: int) -> None:
        """`counts` has the number of rows of each corpus."""
        self._ends = list(np.cumsum(counts))
        self._counts, self._weights, self._seed = tuple(counts), tuple(weights), seed
        if all(weight * count < 1 for weight, count in zip(self._weights, self._counts, strict=True)):
            raise DataError("With these weights there are epochs without a single pair: raise them.")

    def __call__(self, epoch: int) -> NDArray[np.int64]:
        """Return the rows of an epoch (counted from 1), corpus by corpus; a row may occur several times."""
        drawn = []
        for corpus, (count, weight) in enumerate(zip(self._counts, self._weights, strict=True)):
            start, end = ((each * weight * count).__floor__() for each in (epoch - 1, epoch))
            drawn.append(self._rows(corpus, start, end) + self._ends[corpus] - count)
        return np.concatenate(drawn)

    @property
    def identity(self) -> str:
        """An identifier that changes if epochs may have other rows."""
        return " ".join(f"{n}*{shown(weight)}" for n, weight in zip(self._counts, self._weights, strict=True))

    def sizes(self) -> list[int]:
        """Return the number of pairs of each corpus per epoch; with fractional weights it may be one more."""
        return [(weight * count).__floor__() for weight, count in zip(self._weights, self._counts, strict=True)]

    def _rows(self, corpus: int, start: int, end: int) -> NDArray[np.int64]:
        """Return the rows from `start` to `end` of a corpus's endless sequence of passes."""
        count, rows = self._counts[corpus], [np.zeros(0, np.int64)]
        while start < end:
            number, first = divmod(start, count)
            last = min(count, first + end - start)
            rows.append(self._pass(corpus, number)[first:last] if last - first < count else np.arange(count))
            start += last - first
        return np.concatenate(rows)

    def _pass(self, corpus: int, number: int) -> NDArray[np.int64]:
        """Return the order of a pass. Only raw random bits are drawn, which NumPy keeps stable across releases."""
        random = np.random.PCG64([self._seed % 2**64, number, corpus + 1])
        return np.argsort(random.random_raw(self._counts[corpus]), kind="stable")


def shown(weight: Fraction) -> str:
    """Format a weight."""
    return str(weight) if weight.denominator == 1 else f"{float(weight):.9f}".rstrip("0")


def parse_mixed(entry: str, setting: str = "data.mixed") -> WeightedCorpus:
    """Parse one `CORPUS*WEIGHT`, or `CORPUS` of weight 1; commas separate the files of a corpus."""
    corpus, star, written = entry.rpartition("*")
    parts = tuple(part.strip() for part in (corpus if star else entry).split(","))
    weight = _weight(entry, written.strip(), setting) if star else ONE
    if not all(parts):
        raise ConfigError(
            f"{setting}: {entry!r} is not CORPUS or CORPUS*WEIGHT, such as pairs.tsv*2 or train.en,train.de*0.5 "
            "(commas separate the files of a corpus)."
        )
    if STDIN in parts:
        raise ConfigError(f"{setting}: {entry!r} is standard input, which cannot be mixed: give a file.")
    return WeightedCorpus(parts, weight)


def _weight(entry: str, written: str, setting: str) -> Fraction:
    if not _WEIGHT.fullmatch(written):
        raise ConfigError(
            f"{setting}: {entry!r} ends in {written!r} after the *, which is not a weight: write a number above 0, "
            f"such as *2 or *0.5. If the * is part of a file name, add a weight: {entry}*1."
        )
    weight = Fraction(written)
    if not 0 < weight <= HEAVIEST:
        raise ConfigError(
            f"{setting}: {entry!r} has the weight {written}; it must be above 0 and at most {HEAVIEST:,}."
            + (" Leave out a corpus that is not to be trained on." if not weight else "")
        )
    return weight
