"""Multi-head attention: learned projections of queries, keys, values and contexts (Vaswani et al. 2017)."""

import torch
from torch import nn

from regard.batched_weight_gradients import Linear, linear
from regard.shapes import Float, Tensor


class HeadLinear(nn.Module):
    """A linear map of its own for each head, without bias; with one head it equals `nn.Linear`, state dict included."""

    def __init__(self, heads: int, input_width: int, output_width: int) -> None:
        super().__init__()
        self.heads = heads
        self.weight = nn.Parameter(torch.empty(heads * output_width, input_width))
        for head in self.weight.data.chunk(heads):
            nn.init.xavier_uniform_(head)

    def forward(self, inputs: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T E"]:
        """Map each head's inputs."""
        if self.heads == 1:
            return linear(inputs, self.weight)
        # Not `@`, which would copy the weights for each batch row.
        return torch.einsum("bhtd,hed->bhte", inputs, self.weight.view(self.heads, -1, inputs.shape[-1]))


class Heads(nn.Module):
    r"""Queries, keys and values of each head, and one context from all heads (Vaswani et al. 2017, section 3.2.2).

    .. math:: \mathrm{head}_i = \mathrm{attend}(Q W_i^Q, K W_i^K, V W_i^V) \qquad c = [\mathrm{head}_1; \dots] W^O

    With fewer groups than heads, heads share keys and values: grouped-query attention (Ainslie et al. 2023), or with
    one group multi-query attention (Shazeer 2019). A pruned head's contribution is zero (Michel et al. 2019).
    Differs from the paper: works with any score, and the projections have biases, as in `nn.MultiheadAttention`.
    """

    def __init__(
        self,
        query_width: int,
        state_width: int,
        heads: int,
        groups: int,
        width: int,
        output: int,
        reads_states: bool = True,
    ) -> None:
        """`width` is that of one head, `output` that of the context.

        With `reads_states=False` there is no key projection.
        """
        super().__init__()
        self.heads, self.groups = heads, groups
        self.W_q = Linear(query_width, heads * width)
        self.W_k = nn.Linear(state_width, groups * width) if reads_states else None
        self.W_v = nn.Linear(state_width, groups * width)
        self.W_o = Linear(heads * width, output)

    def queries(self, query: Float[Tensor, "B T Q"]) -> Float[Tensor, "B H T K"]:
        """Split queries into heads."""
        return split(self.W_q(query), self.heads)

    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S K"]:
        """Split keys into groups; of width zero if the score does not read the states."""
        if self.W_k is None:
            return states.new_empty(states.shape[0], self.groups, states.shape[1], 0)
        return split(self.W_k(states), self.groups)

    def values(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B G S V"]:
        """Split values into groups."""
        return split(self.W_v(states), self.groups)

    def join(self, contexts: Float[Tensor, "B H T V"]) -> Float[Tensor, "B T D"]:
        """Join the heads' contexts into one."""
        joined: Tensor = self.W_o(contexts.transpose(1, 2).flatten(2))
        return joined


def split(wide: Float[Tensor, "B T D"], heads: int) -> Float[Tensor, "B H T E"]:
    """Split the last dimension into heads."""
    return wide.view(*wide.shape[:2], heads, -1).transpose(1, 2)


def repeat(groups: Float[Tensor, "B G *S K"], heads: int) -> Float[Tensor, "B H *S K"]:
    """Repeat the keys or values of each group for its heads."""
    return groups if groups.shape[1] == heads else groups.repeat_interleave(heads // groups.shape[1], dim=1)
