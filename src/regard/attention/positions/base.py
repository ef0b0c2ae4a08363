"""What a position encoding may do: add to embeddings, turn queries and keys, add to scores, add to what is seen."""

from typing import ClassVar, NamedTuple

from torch import nn

from regard.attention.base import Score
from regard.registry import Registry
from regard.shapes import Float, Int, Place, Tensor


class PositionSizes(NamedTuple):
    """What a position encoding is built for."""

    width: int
    """Of the embeddings, or of the queries and keys of one head."""
    heads: int = 1
    longest: int = 512
    """Most positions, for what is learned for each of them."""
    value: int = 0
    """Width of the values of one head."""


class Position(nn.Module):
    """How a model knows where a token stands. Each kind does one of these; the others do nothing."""

    absolute: ClassVar[bool] = False
    """Whether it is added to embeddings; the others act where a sequence looks at itself."""
    dotted: ClassVar[bool] = False
    """Whether it has a meaning only for scores that are inner products."""
    adds: ClassVar[bool] = False
    """Whether it adds to scores, and perhaps to contexts."""

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__()
        self.longest: int | None = None
        """Most positions it knows; None for any number."""

    def embed(self, embedded: Float[Tensor, "B T E"], first: Place) -> Float[Tensor, "B T E"]:
        """Add to embeddings; the first stands at position `first`."""
        return embedded

    def turn(self, heads: Float[Tensor, "B H T K"], first: Place) -> Float[Tensor, "B H T K"]:
        """Change queries, or keys, by where they stand."""
        return heads

    def bias(
        self, query: Float[Tensor, "B H T K"], distance: Int[Tensor, "T N"], score: Score
    ) -> Float[Tensor, "#B H T N"]:
        """Return what is added to scores; `distance` is how far after a query each of its keys stands."""
        raise NotImplementedError

    def seen(self, weights: Float[Tensor, "B H T N"], distance: Int[Tensor, "T N"]) -> Float[Tensor, "B H T V"] | None:
        """Return what is added to the contexts."""
        return None


positions: Registry[type[Position]] = Registry("position encoding", "positions")
