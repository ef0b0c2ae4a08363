"""Pairs of texts, with an optional gold word alignment."""

from dataclasses import dataclass, field

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
