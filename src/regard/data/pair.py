"""Pairs of texts, some with a gold word alignment, and how a pair is written as a line of TSV or JSONL."""

import json
from dataclasses import dataclass, field

from regard.errors import DataError

Links = frozenset[tuple[int, int]]
"""Links `(i, j)` from source word i to target word j, counted from 0; words are split at white space."""


@dataclass(frozen=True, slots=True)
class Alignment:
    """A gold alignment with sure and possible links (Och & Ney 2003). `possible` includes `sure`."""

    sure: Links
    possible: Links

    def __post_init__(self) -> None:
        object.__setattr__(self, "possible", self.possible | self.sure)

    def reversed(self) -> "Alignment":
        """Return the alignment with source and target swapped."""
        return Alignment(frozenset((j, i) for i, j in self.sure), frozenset((j, i) for i, j in self.possible))

    def guiding(self) -> Links:
        """Return the links for guided attention: the sure ones of each target word, or its possible ones if none."""
        sure = {j for _, j in self.sure}
        return self.sure | {(i, j) for i, j in self.possible if j not in sure}

    def __str__(self) -> str:
        """Format sure links as `i-j` and possible ones as `ipj`, counted from 0."""
        return " ".join(f"{i}{'-' if (i, j) in self.sure else 'p'}{j}" for i, j in sorted(self.possible))


@dataclass(frozen=True, slots=True)
class Pair:
    """A source text and its target text, as raw as the user wrote them."""

    source: str
    target: str
    alignment: Alignment | None = field(default=None, compare=False)

    def reversed(self) -> "Pair":
        """Return the pair with source and target swapped."""
        return Pair(self.target, self.source, None if self.alignment is None else self.alignment.reversed())


def as_pair(given: Pair | tuple[str, str]) -> Pair:
    """Make a pair of two texts."""
    return given if isinstance(given, Pair) else Pair(*given)


def record(pair: Pair) -> str:
    """Format a pair as a JSON object."""
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)


def row(pair: Pair, name: str, number: int, instead: str = "--json") -> str:
    """Format a pair as a TSV row; the other arguments are for the error if it has a tab or a line break."""
    texts = [pair.source, pair.target]
    if any("\t" in text or "\n" in text or text.endswith("\r") for text in texts):
        raise DataError(f"{name}, pair {number:,}: a tab or a line break, which TSV cannot hold. Use {instead}.")
    return "\t".join([*texts, *([] if pair.alignment is None else [str(pair.alignment)])])
