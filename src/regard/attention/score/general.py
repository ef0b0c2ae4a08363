"""The bilinear score."""

import torch
from torch import nn

from regard.attention.base import Score, scores
from regard.shapes import Float, Tensor


@scores.register("general")
class General(Score):
    r"""Score by a learned bilinear form (Luong et al. 2015, section 3.1).

    .. math:: \mathrm{score}(h_t, \bar h_s) = h_t^\top W_a \bar h_s

    `W_a h_s` does not depend on the step, so `keys` computes it once per sentence.
    Differs from the paper: nothing.
    """

    def __init__(self, query_width: int, state_width: int, width: int) -> None:
        super().__init__(query_width, state_width, width)
        self.W_a = nn.Linear(state_width, query_width, bias=False)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S K"]:
        """`W_a h_s` for all s."""
        keys: Tensor = self.W_a(states)
        return keys

    def forward(self, query: Float[Tensor, "B T Q"], keys: Float[Tensor, "B S Q"]) -> Float[Tensor, "B T S"]:
        """All bilinear forms at once."""
        return torch.bmm(query, keys.transpose(1, 2))
