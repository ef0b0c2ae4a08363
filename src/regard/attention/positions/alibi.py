"""ALiBi: a linear penalty on distance."""

import torch

from regard.attention.base import Score
from regard.attention.positions.base import Position, PositionSizes, positions
from regard.shapes import Float, Int, Tensor


@positions.register("alibi")
class Alibi(Position):
    r"""Subtract from each score the distance times a slope, one for each head (Press et al. 2022, section 3).

    .. math:: \mathrm{score}'_{ij} = \mathrm{score}_{ij} - m_h |i - j| \qquad m_h = 2^{-8h/H}, \quad h = 1 \dots H

    If the number of heads is not a power of two, `m` are the slopes for the next lower one, and then every other one
    for twice that, as in the authors' code. Nothing is learned, and there is no maximum length. Differs from the paper:
    in an encoder, which the paper does not cover, the distance counts in both directions.
    """

    adds = True
    m: Float[Tensor, " H"]

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__(sizes)
        self.register_buffer("m", torch.tensor(slopes(sizes.heads)), persistent=False)

    def bias(
        self, query: Float[Tensor, "B H T K"], distance: Int[Tensor, "T N"], score: Score
    ) -> Float[Tensor, "1 H T N"]:
        """`-m |i - j|`, in at least float32: half precision cannot tell distant positions apart."""
        exact = torch.promote_types(query.dtype, torch.float32)
        return -self.m.to(exact)[None, :, None, None] * distance.abs().to(exact)


def slopes(heads: int) -> list[float]:
    """Return `m` for each head."""
    lower = 2 ** (heads.bit_length() - 1)
    exact = [2.0 ** (-8 * h / lower) for h in range(1, lower + 1)]
    between = [2.0 ** (-8 * h / (2 * lower)) for h in range(1, 2 * lower + 1, 2)]
    return exact + between[: heads - lower]
