"""Convolutions and their norms, as the residual network and its blocks use them."""

import math

from torch import nn
from torch.nn import functional

from regard.shapes import Float, Tensor

GROUPS = 8
"""Most groups of channels that are normalised each by itself."""
SMALLEST = 1e-5
"""Added to variances."""


class StandardisedConvolution(nn.Conv2d):
    r"""A convolution whose filters have mean zero and variance one (Qiao et al. 2019, equation 7).

    .. math:: \hat W_{ij} = (W_{ij} - \mu_i) / \sigma_i

    Differs from the paper: the result is divided by the root of a filter's size, so that what comes out has the
    variance of what went in; a norm that follows cannot tell.
    """

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D hh ww"]:
        """Standardise the filters, and apply them."""
        flat = self.weight.flatten(1)
        flat = functional.layer_norm(flat, flat.shape[1:], eps=SMALLEST) * flat.shape[1] ** -0.5
        outputs: Tensor = self._conv_forward(input, flat.view_as(self.weight), self.bias)
        return outputs


def convolution(inputs: int, outputs: int, size: int, stride: int = 1, standardised: bool = False) -> nn.Conv2d:
    """Make a convolution without a bias that keeps rows and columns, but for the stride."""
    kind = StandardisedConvolution if standardised else nn.Conv2d
    return kind(inputs, outputs, size, stride, padding=size // 2, bias=False)


def group_norm(channels: int) -> nn.GroupNorm:
    """Make a norm over groups of channels (Wu & He 2018).

    Not over the batch: then an image's features would depend on what it is batched with, running means would have to be
    stored, averaged and resumed beside weights, and small batches would be noisy. A group has two channels at least: of
    an image of one pixel nothing would be left otherwise.
    """
    groups = 1 if channels % 2 else math.gcd(channels // 2, GROUPS)
    return nn.GroupNorm(groups, channels, eps=SMALLEST)
