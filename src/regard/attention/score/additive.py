"""The additive score."""

import torch

from regard.attention.base import Score, Sizes, scores
from regard.attention.heads import HeadLinear, weigh
from regard.shapes import Float, Tensor


@scores.register("additive")
class Additive(Score):
    r"""Score by a network with one hidden layer (Bahdanau et al. 2014, appendix A.1.2).

    .. math:: e_{ij} = v_a^\top \tanh(W_a s_{i-1} + U_a h_j)

    The names are the paper's. `U_a h_j` does not depend on the step, so `keys` computes it once per sentence.
    Differs from the paper: nothing.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.hidden
        self.W_a = HeadLinear(sizes.heads, sizes.query, sizes.hidden)
        self.U_a = HeadLinear(sizes.groups, sizes.key, sizes.hidden)
        self.v_a = HeadLinear(sizes.heads, sizes.hidden, 1)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """`U_a h_j` for all j."""
        keys: Tensor = self.U_a(states)
        return keys

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """`e_ij` for all i and j; holds one B×H×T×S×A tensor."""
        hidden = torch.tanh(self.W_a(query)[:, :, :, None] + keys[:, :, None])
        return weigh(hidden, self.v_a)
