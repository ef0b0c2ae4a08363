"""What a parallel corpus is made of: pairs of texts, some with a gold word alignment."""

from dataclasses import dataclass, field

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
