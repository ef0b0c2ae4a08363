"""Hold out a part of a corpus for validation: by source, so that no source is in both parts.

The sources with the smallest hashes of text and seed are held out (bottom-k sampling). One pass finds them, the result
does not depend on the order of lines, and only a few hashes are kept in memory.
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
"""One source in this many is held out …"""
FEWEST, MOST = 50, 2_000
"""… but at least and at most this many sources, …"""
PART: Final = 5
"""… and never more than one in this many sources or pairs."""
WORTH: Final = 10
"""If fewer sources than this could be held out, none is: the score would be too noisy."""


def sources_to_hold_out(pairs: int, sources: int) -> int:
    """Return how many sources to hold out of a corpus for validation (`data.held_out`); 0 if there are too few.

    One in twenty, at least 50 and at most 2,000, at most a fifth. None if that is fewer than 10 sources, or fewer than
    the average number of pairs per source (as with labels for sources): held-out sources are never trained on, and with
    so few distinct ones the score would mean nothing.
    """
    count = min(max(sources // SHARE, FEWEST), MOST, sources // PART)
    return count if count >= WORTH and pairs <= count * sources else 0


class Selection:
    """The sources of some corpora that are held out; found in one pass on first use.

    A source with more pairs than `count` (and than 10) stays in training: a very frequent one would take too many pairs
    with it. Sources that differ only in white space are the same. For a language model (`by_target`), targets take the
    place of sources.
    """

    def __init__(self, corpora: Sequence[Corpus], count: int, seed: int, by_target: bool = False) -> None:
        self._corpora = tuple(corpora)
        self._count, self._by_target = count, by_target
        self._salt = (seed % 2**64).to_bytes(8)

    def has(self, pair: Pair) -> bool:
        """Return whether a pair is held out."""
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
        """An identifier that changes if the selection may have changed."""
        told = (self._count, self._salt.hex(), self._by_target, *(corpus.identity() for corpus in self._corpora))
        return blake2b("\n".join(map(str, told)).encode(), digest_size=16).hexdigest()

    def _candidates(self, pairs: Iterable[Pair], most: int) -> tuple[int, dict[int, int]]:
        """Count all pairs, and the pairs of each source among those with the smallest hashes.

        A source that is among them at the end was so from its first pair on, so its count is exact.
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
    """The held-out pairs of a corpus, or all others."""

    def __init__(self, corpus: Corpus, selection: Selection, held_out: bool) -> None:
        self.name = corpus.name
        self.paired = corpus.paired
        self._corpus, self._selection, self._held_out = corpus, selection, held_out

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self._corpus if self._selection.has(pair) is self._held_out)

    def identity(self) -> str:
        """Distinguish the two parts from each other, from other selections and from the whole corpus."""
        side = "held out" if self._held_out else "kept"
        return f"{side} {self._selection.identity}\n{self._corpus.identity()}"


class Stored(Corpus):
    """The held-out pairs that a run stored when it started; maybe none."""

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
        """Cover the file."""
        return self._file.identity


def store(path: Path, pairs: Iterable[Pair]) -> Stored:
    """Store pairs as JSONL, so that a resumed run has them even if the corpus has changed since."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, "".join(f"{_record(pair)}\n" for pair in pairs).encode())
    return Stored(path)


def _record(pair: Pair) -> str:
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)
