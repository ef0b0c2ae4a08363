"""Pairs of texts, some with a gold word alignment, and how a pair is written as a line of TSV or JSONL."""

import json
from dataclasses import dataclass, field

from regard.errors import DataError

Links = frozenset[tuple[int, int]]
"""Links `(i, j)` from source word i to target word j, counted from 0; words are what white space separates."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """A gold alignment: links that must be there, and links that may be (Och & Ney 2003). `possible` holds `sure`."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)

    def reversed(self) -> "Alignment":
        """Link the same words, seen from the other side."""
        return Alignment(frozenset((j, i) for i, j in self.sure), frozenset((j, i) for i, j in self.possible))

    def guiding(self) -> Links:
        """Return the links to learn from: of each target word the sure ones, or where it has none the possible ones."""
        sure = {j for _, j in self.sure}
        return self.sure | {(i, j) for i, j in self.possible if j not in sure}

    def __str__(self) -> str:
        """Write it as `i-j` for sure and `ipj` for possible links, both counted from 0."""
        return " ".join(f"{i}{'-' if (i, j) in self.sure else 'p'}{j}" for i, j in sorted(self.possible))


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target text, as raw as the user wrote them."""

    source: str
    target: str
    alignment: Alignment | None = field(default=None, compare=False)

    def reversed(self) -> "Pair":
        """Turn the pair round: what was the target is to be read."""
        return Pair(self.target, self.source, None if self.alignment is None else self.alignment.reversed())


def as_pair(given: Pair | tuple[str, str]) -> Pair:
    """Make a pair of two texts."""
    return given if isinstance(given, Pair) else Pair(*given)


def record(pair: Pair) -> str:
    """Write a pair as an object of JSON."""
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)


def row(pair: Pair, name: str, number: int, instead: str = "--json") -> str:
    """Write a pair as a row of TSV; the rest is for the message if TSV cannot hold it, `instead` what can."""
    texts = [pair.source, pair.target]
    if any("\t" in text or "\n" in text or text.endswith("\r") for text in texts):
        raise DataError(f"{name}, pair {number:,}: a tab or a line break, which TSV cannot hold. Use {instead}.")
    return "\t".join([*texts, *([] if pair.alignment is None else [str(pair.alignment)])])
