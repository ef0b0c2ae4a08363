"""The tanh score."""

from regard.attention.base import Sizes, scores
from regard.attention.multi_head import HeadLinear
from regard.attention.score.additive import HiddenLayer
from regard.shapes import Float, Tensor


@scores.register("tanh")
class Tanh(HiddenLayer):
    r"""Score by the sum of a hidden layer, without the vector that weighs its units (`tanh(W1 h + W2 s)` in textbooks).

    .. math:: e_{ij} = \sum_a \tanh(W_1 h_j + W_2 s_i)_a

    It is the additive score of Bahdanau et al. 2014 with `v_a` of ones. `W_1 h_j` does not depend on the step, so
    `keys` computes it once per sentence.
    Differs from the textbooks: they leave open how the units become one number. Their sum lets the score be as large as
    `model.attention.width`, hence sharp; `model.attention.width=1` is the form with one unit.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.key_width = sizes.hidden
        self.W_1 = HeadLinear(sizes.groups, sizes.key, sizes.hidden)
        self.W_2 = HeadLinear(sizes.heads, sizes.query, sizes.hidden)

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """`W_1 h_j` for all j."""
        keys: Tensor = self.W_1(states)
        return keys

    def units(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T A"]:
        """`W_2 s_i` for all i."""
        units: Tensor = self.W_2(query)
        return units

    def vectors(self) -> None:
        """All units have weight one."""
