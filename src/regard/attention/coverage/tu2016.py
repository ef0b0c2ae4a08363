"""The coverage vector with fertility."""

import torch
from torch import nn

from regard.attention.base import Coverage, Sizes, coverages
from regard.attention.multi_head import HeadLinear
from regard.shapes import Float, Tensor


@coverages.register("tu2016")
class TuCoverage(Coverage):
    r"""Add earlier weights, divided by each word's learned fertility, to the score (Tu et al. 2016, section 3.1.1).

    .. math:: C_{i,j} = C_{i-1,j} + \frac{\alpha_{i,j}}{\Phi_j} \qquad \Phi_j = N \cdot \sigma(U_f h_j) \qquad
        e_{i,j} = v_a^\top \tanh(W_a t_{i-1} + U_a h_j + V_a C_{i-1,j})

    This is the paper's linguistic coverage, with its upper bound on the fertility, `N = 2`. `Φ` does not depend on the
    step, so `C` is the sum of the weights divided by `Φ`. `V_a C` is added to the key. Inside the additive score's tanh
    that is exactly the paper's equation, and it makes coverage work with every other score too.
    Differs from the paper: with several heads, each has its own `C` and `V_a`, and all share `Φ`.
    """

    most = 2.0

    def __init__(self, sizes: Sizes, key_width: int) -> None:
        super().__init__(sizes, key_width)
        self.U_f = nn.Linear(sizes.raw_state, 1, bias=False)
        self.V_a = HeadLinear(sizes.heads, 1, key_width)

    def fertility(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"]:
        """`Φ_j` for all j."""
        return self.most * torch.sigmoid(self.U_f(states).squeeze(-1))

    def forward(
        self, keys: Float[Tensor, "B H S K"], covered: Float[Tensor, "B H S"], fertility: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B H S K"]:
        """Add `V_a C_j` to each key."""
        assert fertility is not None
        bias: Tensor = self.V_a((covered / fertility[:, None])[..., None])
        return keys + bias
