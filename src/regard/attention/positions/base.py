"""Interface of position encodings: they add to embeddings, rotate queries and keys, or add to scores and contexts."""

from typing import ClassVar, NamedTuple

from torch import nn

from regard.attention.base import Score
from regard.registry import Registry
from regard.shapes import Float, Int, Place, Tensor


class PositionSizes(NamedTuple):
    """Sizes that a position encoding is built with."""

    width: int
    """Width of the embeddings, or of the queries and keys of one head."""
    heads: int = 1
    longest: int = 512
    """Maximum number of positions, for encodings that learn something for each."""
    value: int = 0
    """Width of the values of one head."""


class Position(nn.Module):
    """A position encoding. Each kind overrides some of these methods; the others do nothing."""

    absolute: ClassVar[bool] = False
    """Whether it is added to embeddings; the others act in self-attention."""
    dotted: ClassVar[bool] = False
    """Whether it needs a score that is an inner product."""
    adds: ClassVar[bool] = False
    """Whether it adds to scores, and possibly to contexts."""

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__()
        self.longest: int | None = None
        """Maximum number of positions; None if unlimited."""

    def embed(self, embedded: Float[Tensor, "B T E"], first: Place) -> Float[Tensor, "B T E"]:
        """Add to embeddings; `first` is the position of the first one."""
        return embedded

    def turn(self, heads: Float[Tensor, "B H T K"], first: Place) -> Float[Tensor, "B H T K"]:
        """Transform queries, or keys, by their positions."""
        return heads

    def bias(
        self, query: Float[Tensor, "B H T K"], distance: Int[Tensor, "T N"], score: Score
    ) -> Float[Tensor, "#B H T N"]:
        """Return what to add to scores; `distance` is the key's position minus the query's."""
        raise NotImplementedError

    def seen(self, weights: Float[Tensor, "B H T N"], distance: Int[Tensor, "T N"]) -> Float[Tensor, "B H T V"] | None:
        """Return what to add to the contexts, or None."""
        return None


positions: Registry[type[Position]] = Registry("position encoding", "positions")
