"""Learned absolute positions."""

import torch
from torch import nn

from regard.attention.positions.base import Position, PositionSizes, positions
from regard.errors import ModelError
from regard.shapes import Float, Place, Tensor, places


@positions.register("learned")
class Learned(Position):
    r"""Add a learned vector for each position to the embeddings (Gehring et al. 2017, section 3.1).

    .. math:: e_i = w_i + p_i

    There are `model.self_attention.longest` of them; a longer sequence raises an error. Differs from the paper: source
    and target share the vectors; they are initialised at the scale of unscaled embeddings.
    """

    absolute = True

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__(sizes)
        self.longest = sizes.longest
        self.p = nn.Parameter(torch.randn(sizes.longest, sizes.width) * sizes.width**-0.5)

    def embed(self, embedded: Float[Tensor, "B T E"], first: Place) -> Float[Tensor, "B T E"]:
        """Add the vectors of these positions."""
        if isinstance(first, Tensor):
            return embedded + self.p.index_select(0, places(first, embedded.shape[1], embedded.device))
        last, longest = first + embedded.shape[1], self.p.shape[0]
        if last > longest:
            raise ModelError(
                f"model.positions=learned has vectors for {longest} positions, and a sequence has {last}: train with "
                f"model.self_attention.longest={last} or more, or give shorter sequences."
            )
        return embedded + self.p[first:last]
