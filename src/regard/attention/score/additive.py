"""The additive score."""

import torch
from torch import nn

from regard.attention.base import Score, scores
from regard.shapes import Float, Tensor


@scores.register("additive")
class Additive(Score):
    r"""Score by a network with one hidden layer (Bahdanau et al. 2014, appendix A.1.2).

    .. math:: e_{ij} = v_a^\top \tanh(W_a s_{i-1} + U_a h_j)

    The names are the paper's. `U_a h_j` does not depend on the step, so `keys` computes it once per sentence.
    Differs from the paper: nothing.
    """

    def __init__(self, query_width: int, state_width: int, width: int) -> None:
        super().__init__(query_width, state_width, width)
        self.W_a = nn.Linear(query_width, width, bias=False)
        self.U_a = nn.Linear(state_width, width, bias=False)
        self.v_a = nn.Linear(width, 1, bias=False)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S K"]:
        """`U_a h_j` for all j."""
        keys: Tensor = self.U_a(states)
        return keys

    def forward(self, query: Float[Tensor, "B T Q"], keys: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        """`e_ij` for all i and j; holds one B×T×S×A tensor."""
        hidden = torch.tanh(self.W_a(query)[:, :, None] + keys[:, None])
        energies: Tensor = self.v_a(hidden).squeeze(-1)
        return energies
