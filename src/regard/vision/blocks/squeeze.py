"""Channel attention: squeeze and excitation."""

import torch
from torch import nn
from torch.nn import functional

from regard.errors import ConfigError
from regard.shapes import Float, Tensor
from regard.vision.blocks.base import Block, BlockSizes, blocks


class Excitation(nn.Module):
    r"""Gates of channels (Hu et al. 2017, equation 3): `s = \sigma(W_2 \delta(W_1 z))`, with δ a ReLU."""

    def __init__(self, channels: int, units: int) -> None:
        super().__init__()
        self.W_1 = nn.Linear(channels, units, bias=False)
        self.W_2 = nn.Linear(units, channels, bias=False)

    def forward(self, squeezed: Float[Tensor, "B C"]) -> Float[Tensor, "B C"]:
        """Return a gate for each channel."""
        return torch.sigmoid(self.W_2(functional.relu(self.W_1(squeezed))))


@blocks.register("squeeze-excitation")
class SqueezeExcitation(Block):
    r"""Scale each channel by a gate computed from all channels' means (Hu et al. 2017, equations 2 to 4).

    .. math::
        z_c = \frac{1}{hw} \sum_{i,j} u_c(i, j) \qquad s = \sigma(W_2\, \delta(W_1 z)) \qquad \tilde x_c = s_c u_c

    There are C/r units between `W_1` and `W_2`. In a residual network the block can be inside each unit, before the sum
    (`model.image.within`). Differs from the paper: nothing.
    """

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__(sizes)
        channels, reduction = sizes.channels, sizes.reduction
        if reduction < 1 or channels % reduction:
            raise ConfigError(
                f"model.image.reduction is {reduction}, which does not divide the {channels} channels to be gated: "
                "change it, or model.image.width."
            )
        self.excitation = Excitation(channels, channels // reduction)

    @property
    def attends(self) -> nn.Module:
        """Its gates, B×C."""
        return self.excitation

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Squeeze, excite, scale."""
        gates: Tensor = self.excitation(features.mean(dim=(2, 3)))
        return features * gates[:, :, None, None]
