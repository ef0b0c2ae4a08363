"""Learned relative positions."""

import torch
from torch import nn

from regard.attention.base import Score
from regard.attention.positions.base import Position, PositionSizes, positions
from regard.shapes import Float, Int, Tensor

FARTHEST = 16
"""k of the paper's main experiments (section 4.1); distances beyond it share one vector."""


@positions.register("shaw")
class Shaw(Position):
    r"""Add learned vectors, one for each distance, to keys and values (Shaw et al. 2018, equations 3 and 4).

    .. math::
        e_{ij} = f(q_i)^\top (k_j + a^K_{j-i}) \qquad z_i = \sum_j \alpha_{ij} (v_j + a^V_{j-i}) \qquad
        |j - i| \text{ is cut off at } k

    `k_j` is the key that the score has computed, and `f(q_i)` what it multiplies keys by: the vector is added to the
    key after any projection. With `general`, `k_j` is `W_a h_j`, and the vector does not pass through `W_a`. With
    `cosine`, `k_j` has unit length and the vector any: `β q_i·(k_j + a^K) / |q_i|` is no longer a cosine, nor bounded
    by `β`. Such scores are linear in `k_j`, so `f(q_i)·a^K` is computed once for each of the 2k+1 distances and then
    gathered (section 3.3 goes half that way); likewise weights are summed by distance before they are multiplied by
    `a^V`. So no tensor is larger than the scores, with a sparse reach too. All heads share the vectors; each layer has
    its own. Differs from the paper: nothing with the paper's score, `scaled-dot`; other scores may be used.
    """

    dotted = True
    adds = True

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__(sizes)
        number = 2 * FARTHEST + 1
        self.a_K = nn.Parameter(torch.empty(number, sizes.width))
        self.a_V = nn.Parameter(torch.empty(number, sizes.value or sizes.width))
        for vectors in (self.a_K, self.a_V):
            nn.init.xavier_uniform_(vectors)

    def bias(
        self, query: Float[Tensor, "B H T K"], distance: Int[Tensor, "T N"], score: Score
    ) -> Float[Tensor, "B H T N"]:
        """Score the vectors, and gather for each pair the score of its distance."""
        by_distance: Tensor = score(query, self.a_K.expand(*query.shape[:2], -1, -1))
        return by_distance.gather(-1, _which(distance).expand(*query.shape[:2], -1, -1))

    def seen(self, weights: Float[Tensor, "B H T N"], distance: Int[Tensor, "T N"]) -> Float[Tensor, "B H T V"]:
        """Sum the weights by distance, and multiply them by the vectors."""
        empty = weights.new_zeros(*weights.shape[:3], self.a_V.shape[0])
        by_distance = empty.scatter_add(-1, _which(distance).expand_as(weights), weights)
        return by_distance.to(self.a_V.dtype) @ self.a_V


def _which(distance: Int[Tensor, "T N"]) -> Int[Tensor, "T N"]:
    """Return the row of the tables for each distance."""
    return distance.clamp(-FARTHEST, FARTHEST) + FARTHEST
