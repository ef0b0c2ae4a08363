"""The residual unit of the residual network and of soft masks."""

from collections.abc import Callable

from torch import nn
from torch.nn import functional

from regard.shapes import Float, Tensor
from regard.vision.blocks.base import Block
from regard.vision.convolution import PLAIN, Convolutions


class ResidualUnit(nn.Module):
    r"""Two convolutions with a residual connection (He et al. 2016, "Identity mappings", figure 1b).

    .. math:: y = x + W_2 * \sigma(\hat x_1) \qquad x_1 = W_1 * \sigma(\hat x)

    where the hat is a norm and sigma a ReLU. If rows, columns or channels change, a 1×1 convolution of `σ(x̂)` replaces
    the identity. A block, if there is one, attends to what is added to `x` (Hu et al. 2017, figure 3).
    Differs from the paper: norms are over groups of channels, unless `model.image.normalise` is batch.
    """

    def __init__(
        self,
        inputs: int,
        outputs: int,
        stride: int = 1,
        made: Convolutions = PLAIN,
        block: Callable[[], Block] | None = None,
    ) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = made.norm(inputs), made.norm(outputs)
        self.W_1 = made.filters(inputs, outputs, 3, stride)
        self.W_2 = made.filters(outputs, outputs, 3)
        self.W_s = None if stride == 1 and inputs == outputs else made.filters(inputs, outputs, 1, stride)
        self.block = None if block is None else block()

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D hh ww"]:
        """Run the unit."""
        bent = functional.relu(self.norm_1(features))
        added: Tensor = self.W_2(functional.relu(self.norm_2(self.W_1(bent))))
        if self.block is not None:
            added = self.block(added)
        kept: Tensor = features if self.W_s is None else self.W_s(bent)
        return kept + added
