"""The coverage vector of pointer-generator networks."""

from regard.attention.base import Coverage, Sizes, coverages
from regard.attention.multi_head import HeadLinear
from regard.shapes import Float, Tensor


@coverages.register("see2017")
class SeeCoverage(Coverage):
    r"""Add the sum of all earlier weights to the score (See et al. 2017, equations 10 and 11).

    .. math:: c^t_j = \sum_{t' < t} a^{t'}_j \qquad e^t_j = v^\top \tanh(W_h h_j + W_s s_t + w_c c^t_j)

    `w_c c` is added to the key. Inside the additive score's tanh that is exactly the paper's equation, and it makes
    coverage work with every other score too. Differs from the paper: the score has no bias.
    """

    def __init__(self, sizes: Sizes, key_width: int) -> None:
        super().__init__(sizes, key_width)
        self.w_c = HeadLinear(sizes.heads, 1, key_width)

    def forward(
        self, keys: Float[Tensor, "B H S K"], covered: Float[Tensor, "B H S"], fertility: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B H S K"]:
        """Add `w_c c_j` to each key."""
        bias: Tensor = self.w_c(covered[..., None])
        return keys + bias
