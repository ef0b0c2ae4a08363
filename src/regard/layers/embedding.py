"""Tokens as vectors that know where they stand."""

from torch import nn

from regard.attention.positions import Position
from regard.shapes import Float, Int, Place, Tensor


class Embedding(nn.Embedding):
    """A table of vectors, one for each entry of a vocabulary, scaled, with positions added where the model has them.

    A model that adds positions multiplies its embeddings by the root of their width (Vaswani et al. 2017, section 3.4),
    so that they weigh as much as the positions do; tied to the output layer, they need to be small there.
    """

    def __init__(self, size: int, width: int, pad: int, position: Position | None = None, scaled: bool = False) -> None:
        super().__init__(size, width, padding_idx=pad)
        self.position = position
        self.scale = width**0.5 if scaled else 1.0

    @property
    def longest(self) -> int | None:
        """Most tokens of a sequence, where positions are learned; None for any number."""
        return None if self.position is None else self.position.longest

    def forward(self, tokens: Int[Tensor, "B T"], first: Place = 0) -> Float[Tensor, "B T E"]:
        """Look the tokens up; the first of them stands at position `first`."""
        embedded = super().forward(tokens)
        if self.scale != 1.0:
            embedded = embedded * self.scale
        return embedded if self.position is None else self.position.embed(embedded, first)
