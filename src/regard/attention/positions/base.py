"""What a position encoding may do: add to embeddings, turn queries and keys, add to scores, add to what is seen."""

from typing import ClassVar, NamedTuple

from torch import nn

from regard.registry import Registry
from regard.shapes import Float, Int, Tensor


class PositionSizes(NamedTuple):
    """What a position encoding is built for."""

    width: int
    """Of the embeddings, or of the queries and keys of one head."""
    heads: int = 1
    longest: int = 512
    """Most positions, for what is learned for each of them."""


class Position(nn.Module):
    """How a model knows where a token stands. Each kind does one of these; the others do nothing."""

    absolute: ClassVar[bool] = False
    """Whether it is added to embeddings; the others act where a sequence looks at itself."""
    dotted: ClassVar[bool] = False
    """Whether it has a meaning only for scores that are inner products."""

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__()

    def embed(self, embedded: Float[Tensor, "B T E"], first: int) -> Float[Tensor, "B T E"]:
        """Add to embeddings; the first stands at position `first`."""
        return embedded

    def turn(self, heads: Float[Tensor, "B H T K"], first: int) -> Float[Tensor, "B H T K"]:
        """Change queries, or keys, by where they stand."""
        return heads

    def bias(
        self, query: Float[Tensor, "B H T K"], queries: Int[Tensor, " T"], keys: Int[Tensor, " N"]
    ) -> Float[Tensor, "#B H T N"] | None:
        """Return what is added to the scores of queries at these positions for keys at those."""
        return None

    def seen(
        self, weights: Float[Tensor, "B H T N"], queries: Int[Tensor, " T"], keys: Int[Tensor, " N"]
    ) -> Float[Tensor, "B H T K"] | None:
        """Return what is added to the contexts."""
        return None


positions: Registry[type[Position]] = Registry("position encoding", "positions")
