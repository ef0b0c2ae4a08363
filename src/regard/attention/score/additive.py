"""The additive score, and what it shares with its relatives: a hidden layer over the sum of two vectors."""

from abc import abstractmethod

from regard.attention import fused
from regard.attention.base import Score, Sizes, scores
from regard.attention.multi_head import HeadLinear
from regard.shapes import Float, Tensor
from regard.step_loop import bent


class HiddenLayer(Score):
    r"""A score that weighs the units of one hidden layer, of what the query gives and what the key gives.

    .. math:: e_{ij} = v^\top \tanh(q_i + k_j)

    Where there is a fused kernel, it computes the same without the hidden layer of all pairs ever being held.
    """

    whole_windows = 1  # each further pair costs a hidden layer

    @abstractmethod
    def units(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T A"]:
        """Compute what the query gives to each unit, `q_i`."""

    @abstractmethod
    def vectors(self) -> Float[Tensor, "H A"] | None:
        """Tell how much each unit weighs, `v`; None if they all weigh one."""

    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """`e_ij` for all i and j; holds one B×H×T×S×A tensor where there is no fused kernel."""
        units = self.units(query)
        if fused.usable(units, keys):
            return fused.additive_scores(units, keys, self.vectors())
        return bent(units, keys, self.vectors())


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
