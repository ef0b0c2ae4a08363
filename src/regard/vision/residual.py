"""The residual unit, of which the residual network and soft masks are made."""

from collections.abc import Callable

from torch import nn
from torch.nn import functional

from regard.shapes import Float, Tensor
from regard.vision.base import Block
from regard.vision.convolution import convolution, group_norm


class ResidualUnit(nn.Module):
    r"""Two convolutions, whose input is added to their output (He et al. 2016, "Identity mappings", figure 1b).

    .. math:: y = x + W_2 * \sigma(\hat x_1) \qquad x_1 = W_1 * \sigma(\hat x)

    where the hat is a norm and sigma a ReLU. Where rows, columns or channels change, a 1×1 convolution of `σ(x̂)` is
    added instead. A block, if there is one, attends to what is added to `x` (Hu et al. 2017, figure 3).
    Differs from the paper: norms are over groups of channels, not over the batch.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int = 1,
        standardised: bool = False,
        block: Callable[[], Block] | None = None,
    ) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = group_norm(inputs), group_norm(outputs)
        self.W_1 = convolution(inputs, outputs, 3, stride, standardised)
        self.W_2 = convolution(outputs, outputs, 3, 1, standardised)
        self.W_s = None if stride == 1 and inputs == outputs else convolution(inputs, outputs, 1, stride, standardised)
        self.block = None if block is None else block()

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D hh ww"]:
        """Run."""
        bent = functional.relu(self.norm_1(features))
        added: Tensor = self.W_2(functional.relu(self.norm_2(self.W_1(bent))))
        if self.block is not None:
            added = self.block(added)
        kept: Tensor = features if self.W_s is None else self.W_s(bent)
        return kept + added
