"""The gated hyperbolic tangent, as a layer and as a score."""

import torch
from torch import nn

from regard.attention.base import Score, Sizes
from regard.attention.multi_head import HeadLinear
from regard.shapes import Float, Tensor


class GatedTanh(nn.Module):
    r"""A layer of tanh units with a sigmoid gate each (Anderson et al. 2018, section 3.3).

    .. math:: f(x) = \tanh(W x + b) \odot \sigma(W' x + b')

    Differs from the paper: nothing.
    """

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.W, self.W_gate = nn.Linear(input_width, width), nn.Linear(input_width, width)

    def forward(self, inputs: Float[Tensor, "*N D"]) -> Float[Tensor, "*N E"]:
        """Apply it."""
        return torch.tanh(self.W(inputs)) * torch.sigmoid(self.W_gate(inputs))


class GatedTanhScore(Score):
    r"""Score by a gated layer over the concatenation of query and key (Anderson et al. 2018, section 3.3).

    .. math:: a_i = w_a^\top f_a([v_i; q]) \qquad f_a(x) = \tanh(W x + b) \odot \sigma(W' x + b')

    `W` and `W'` are stacked here, then split by input into `V`, applied to `v_i`, and `Q`, applied to `q`: the former
    does not depend on the question, so `keys` computes it once per image. Differs from the paper: nothing.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = 2 * sizes.hidden
        self.V = HeadLinear(sizes.groups, sizes.key, 2 * sizes.hidden)
        self.Q = HeadLinear(sizes.heads, sizes.query, 2 * sizes.hidden)
        self.b = nn.Parameter(torch.zeros(sizes.heads * 2 * sizes.hidden))
        self.w_a = HeadLinear(sizes.heads, sizes.hidden, 1)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """The share of each `v_i` in units and gates."""
        keys: Tensor = self.V(states)
        return keys

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """`a_i` for all questions and regions; holds a B×H×T×S×2A tensor."""
        units = self.Q(query) + self.b.view(-1, 1, self.key_width)
        unit, gate = (units[:, :, :, None] + keys[:, :, None]).chunk(2, dim=-1)
        gated = torch.tanh(unit) * torch.sigmoid(gate)
        return torch.einsum("bhtsa,ha->bhts", gated, self.w_a.weight)
