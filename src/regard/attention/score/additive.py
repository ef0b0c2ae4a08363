"""The additive score, and the base class of all scores with a hidden layer over the sum of two vectors."""

from abc import abstractmethod

from regard.attention import fused
from regard.attention.base import Score, Sizes, scores
from regard.attention.multi_head import HeadLinear
from regard.batched_weight_gradients import tanh_scores
from regard.shapes import Float, Tensor


class HiddenLayer(Score):
    r"""Base of scores that weigh the units of one hidden layer, computed from the query and the key.

    .. math:: e_{ij} = v^\top \tanh(q_i + k_j)

    The fused kernel, where there is one, computes the same without holding the hidden layer of all pairs.
    """

    whole_windows = 1  # each further pair costs a hidden layer

    @abstractmethod
    def units(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T A"]:
        """Compute the query's share of each unit, `q_i`."""

    @abstractmethod
    def vectors(self) -> Float[Tensor, "H A"] | None:
        """Return the weight of each unit, `v`; None if all are one."""

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """`e_ij` for all i and j; holds a B×H×T×S×A tensor unless there is a fused kernel."""
        units = self.units(query)
        if fused.usable(units, keys):
            return fused.additive_scores(units, keys, self.vectors())
        return tanh_scores(units, keys, self.vectors())


@scores.register("additive")
class Additive(HiddenLayer):
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

    def units(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T A"]:
        """`W_a s_{i-1}` for all i."""
        units: Tensor = self.W_a(query)
        return units

    def vectors(self) -> Float[Tensor, "H A"]:
        """`v_a` of each head."""
        return self.v_a.weight
