"""A part of a corpus held out for validation: by source, so that no source is on both sides.

The sources with the smallest hashes of text and seed are held out (bottom-k sampling). So one pass finds them, the
order of the lines has no say, and only a few hashes are in memory, never the corpus.
"""

import heapq
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Final

from regard.atomic_files import write_atomically
from regard.data.corpus import Corpus
from regard.data.line_files import open_lines
from regard.data.pair import Pair
from regard.errors import DataError

SHARE: Final = 20
"""One source in so many is held out …"""
FEWEST, MOST = 50, 2_000
"""… but at least and at most so many sources, …"""
PART: Final = 5
"""… and never more than one in so many sources, nor than one in so many pairs."""
WORTH: Final = 10
"""Fewer sources than these are too few to go by: then none is held out."""


def sources_to_hold_out(pairs: int, sources: int) -> int:
    """Return how many sources to hold out of a corpus for validation (`data.held_out`); 0 where too few would be left.

    One in twenty, at least 50 and at most 2,000, at most a fifth. None where that is fewer than 10 sources, or where a
    source has on average more pairs than that (as where labels are read and texts written): no source of those held
    out is ever learnt from, and with so few different ones the score would say nothing.
    """
    count = min(max(sources // SHARE, FEWEST), MOST, sources // PART)
    return count if count >= WORTH and pairs <= count * sources else 0


class Selection:
    """Which sources of some corpora are held out; found in one pass when first asked.

    A source that has more pairs than `count` (and than 10) stays in training: one that is everywhere would take too
    many along. Sources that differ in white space alone are one. For a model that reads no source (`by_target`), it is
    the texts to be written that are on one side only.
    """

    def __init__(self, corpora: Sequence[Corpus], count: int, seed: int, by_target: bool = False) -> None:
        self._corpora = tuple(corpora)
        self._count, self._by_target = count, by_target
        self._salt = (seed % 2**64).to_bytes(8)

    def has(self, pair: Pair) -> bool:
        """Say whether a pair is held out."""
        return self._hash(pair) in self.hashes

    @cached_property
    def hashes(self) -> frozenset[int]:
        """The hashes of the sources that are held out."""
        pairs, counts = self._candidates(chain.from_iterable(self._corpora), PART * self._count)
        wanted, room = min(self._count, len(counts) // PART), pairs // PART
        chosen: list[int] = []
        for number in sorted(counts):
            if len(chosen) < wanted and counts[number] <= min(room, max(self._count, WORTH)):
                room -= counts[number]
                chosen.append(number)
        return frozenset(chosen)

    @property
    def identity(self) -> str:
        """What changes whenever other sources may be held out."""
        told = (self._count, self._salt.hex(), self._by_target, *(corpus.identity() for corpus in self._corpora))
        return blake2b("\n".join(map(str, told)).encode(), digest_size=16).hexdigest()

    def _candidates(self, pairs: Iterable[Pair], most: int) -> tuple[int, dict[int, int]]:
        """Count all pairs, and those of each of the sources with the smallest hashes.

        A source that is among these in the end was so from its first pair on, so that its count is exact.
        """
        total, counts, largest = 0, dict[int, int](), list[int]()
        for pair in pairs:
            total += 1
            number = self._hash(pair)
            if number in counts:
                counts[number] += 1
            elif len(counts) < most:
                heapq.heappush(largest, -number)
                counts[number] = 1
            elif most and number < -largest[0]:
                del counts[-heapq.heapreplace(largest, -number)]
                counts[number] = 1
        return total, counts

    def _hash(self, pair: Pair) -> int:
        text = pair.target if self._by_target else pair.source
        digest = blake2b(" ".join(text.split()).encode(), digest_size=8, salt=self._salt)
        return int.from_bytes(digest.digest())


class Part(Corpus):
    """The pairs of a corpus that are held out, or all others."""

    def __init__(self, corpus: Corpus, selection: Selection, held_out: bool) -> None:
        self.name = corpus.name
        self.paired = corpus.paired
        self._corpus, self._selection, self._held_out = corpus, selection, held_out

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self._corpus if self._selection.has(pair) is self._held_out)

    def identity(self) -> str:
        """Tell the two parts from each other, from those of another selection and from the whole."""
        side = "held out" if self._held_out else "kept"
        return f"{side} {self._selection.identity}\n{self._corpus.identity()}"


class Stored(Corpus):
    """Pairs that were held out when a run began, as it wrote them down; maybe none."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._file = open_lines(str(path))

    def __iter__(self) -> Iterator[Pair]:
        for number, line in enumerate(self._file, start=1):
            try:
                record = json.loads(line)
                yield Pair(record["source"], record["target"])
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{self._file.at(number)}: damaged.") from None

    def identity(self) -> str:
        """Go by the file."""
        return self._file.identity


def store(path: Path, pairs: Iterable[Pair]) -> Stored:
    """Write pairs down as JSONL, so that a resumed run has them whatever became of the corpus since."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{_record(pair)}\n" for pair in pairs).encode())
    return Stored(path)


def _record(pair: Pair) -> str:
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)
