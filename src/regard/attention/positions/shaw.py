"""Distances as learned vectors."""

import torch
from torch import nn

from regard.attention.base import Score
from regard.attention.positions.base import Position, PositionSizes, positions
from regard.shapes import Float, Int, Tensor

FARTHEST = 16
"""k of the paper's main experiments (section 4.1); farther away, all distances are one."""


@positions.register("shaw")
class Shaw(Position):
    r"""A learned vector for each distance joins the keys, and another the values (Shaw et al. 2018, equations 3 and 4).

    .. math::
        e_{ij} = f(q_i)^\top (k_j + a^K_{j-i}) \qquad z_i = \sum_j \alpha_{ij} (v_j + a^V_{j-i}) \qquad
        |j - i| \text{ is cut off at } k

    `k_j` is the key as the score has prepared it, and `f(q_i)` what the score multiplies keys by: the vector joins the
    key after that. With `general`, `k_j` is `W_a h_j`, and the vector does not pass through `W_a`. With `cosine`, `k_j`
    has length one and the vector any: `β q_i·(k_j + a^K) / |q_i|` is no cosine any more, and not bounded by `β`.
    Such scores are linear in `k_j`, so `f(q_i)·a^K` is made once for each of the 2k+1 distances and then picked
    (section 3.3 goes half that way); likewise weights are summed by distance before they meet `a^V`. So nothing is
    larger than the scores are, also where the reach is short. All heads share the vectors, each layer has its own.
    Differs from the paper: its score is `scaled-dot`, and with that nothing differs; others may be taken.
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
        """Score the vectors, and pick for each pair that of its distance."""
        by_distance: Tensor = score(query, self.a_K.expand(*query.shape[:2], -1, -1))
        return by_distance.gather(-1, _which(distance).expand(*query.shape[:2], -1, -1))

    def seen(self, weights: Float[Tensor, "B H T N"], distance: Int[Tensor, "T N"]) -> Float[Tensor, "B H T V"]:
        """Sum the weights of each distance, and the vectors by that."""
        empty = weights.new_zeros(*weights.shape[:3], self.a_V.shape[0])
        by_distance = empty.scatter_add(-1, _which(distance).expand_as(weights), weights)
        return by_distance.to(self.a_V.dtype) @ self.a_V


def _which(distance: Int[Tensor, "T N"]) -> Int[Tensor, "T N"]:
    """Return the rows of the tables."""
    return distance.clamp(-FARTHEST, FARTHEST) + FARTHEST
