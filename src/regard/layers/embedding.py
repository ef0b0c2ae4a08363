"""Token embeddings with positions."""

from torch import nn

from regard.attention.positions import Position
from regard.shapes import Float, Int, Place, Tensor


class Embedding(nn.Embedding):
    """Token embeddings, scaled and with positions added where the model has absolute positions.

    Such a model multiplies its embeddings by the square root of their width (Vaswani et al. 2017, section 3.4), so that
    they have the magnitude of the positions; weights tied to the output layer must be small.
    """

    def __init__(self, size: int, width: int, pad: int, position: Position | None = None, scaled: bool = False) -> None:
        super().__init__(size, width, padding_idx=pad)
        self.position = position
        self.scale = width**0.5 if scaled else 1.0

    @property
    def longest(self) -> int | None:
        """Maximum sequence length, where positions are learned; None if unlimited."""
        return None if self.position is None else self.position.longest

    def forward(self, tokens: Int[Tensor, "B T"], first: Place = 0) -> Float[Tensor, "B T E"]:
        """Embed the tokens; `first` is the position of the first one."""
        embedded = super().forward(tokens)
        if self.scale != 1.0:
            embedded = embedded * self.scale
        return embedded if self.position is None else self.position.embed(embedded, first)
