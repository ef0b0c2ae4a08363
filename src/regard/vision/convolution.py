"""Convolutions and norms of the residual network and its blocks."""

import math
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from regard.errors import ConfigError
from regard.shapes import Float, Tensor

GROUPS = 8
"""Maximum number of groups in a group norm."""
SMALLEST = 1e-5
"""Epsilon added to variances."""
KEPT = 0.9
"""Decay of the running mean and variance at each step."""
NORMS = ("groups", "batch")


class StandardisedConvolution(nn.Conv2d):
    r"""A convolution whose filters have mean zero and variance one (Qiao et al. 2019, weight standardization).

    .. math:: \hat W_{ij} = (W_{ij} - \mu_i) / \sigma_i

    Differs from the paper: the result is divided by the square root of the filter's size, so that the output has the
    variance of the input; a norm that follows cancels that.
    """

    def forward(self, input: Float[Tensor, "B C h w"]) -> Float[Tensor, "B D hh ww"]:
        """Standardise the filters, and apply them."""
        flat = self.weight.flatten(1)
        flat = functional.layer_norm(flat, flat.shape[1:], eps=SMALLEST) * flat.shape[1] ** -0.5
        outputs: Tensor = self._conv_forward(input, flat.view_as(self.weight), self.bias)
        return outputs


class BatchNorm(nn.Module):
    r"""Normalise each channel over the images of a batch and their positions (Ioffe & Szegedy 2015, algorithms 1, 2).

    .. math:: y = \gamma\, \frac{x - \mathrm{E}[x]}{\sqrt{\mathrm{Var}[x] + \epsilon}} + \beta

    In training mean and variance are the batch's, in evaluation the running ones. These are parameters here, without
    gradient, so that they are saved, averaged and resumed like all weights.
    Differs from the paper: nothing.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(channels)), nn.Parameter(torch.zeros(channels))
        self.mean = nn.Parameter(torch.zeros(channels), requires_grad=False)
        self.variance = nn.Parameter(torch.ones(channels), requires_grad=False)

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Normalise; in training, update the running statistics too."""
        return functional.batch_norm(
            features,
            self.mean,
            self.variance,
            self.weight,
            self.bias,
            training=self.training,
            momentum=1 - KEPT,
            eps=SMALLEST,
        )


class Convolutions(NamedTuple):
    """How a network's convolutions and norms are made."""

    standardised: bool = False
    """Whether filters are standardised."""
    normalise: str = "groups"
    """What norms are over: groups of channels of each image, or the batch."""

    def filters(self, inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Conv2d:
        """Make a convolution without bias, padded so that only the stride changes rows and columns."""
        kind = StandardisedConvolution if self.standardised else nn.Conv2d
        return kind(inputs, outputs, size, stride, padding=size // 2, bias=False)

    def norm(self, channels: int) -> nn.GroupNorm | BatchNorm:
        """Make a norm for features."""
        if self.normalise not in NORMS:
            raise ConfigError(f"model.image.normalise must be one of {', '.join(NORMS)}, got {self.normalise!r}.")
        return BatchNorm(channels) if self.normalise == "batch" else group_norm(channels)


PLAIN = Convolutions()
"""Plain convolutions, and norms over groups of channels."""


def group_norm(channels: int) -> nn.GroupNorm:
    """Make a norm over groups of channels (Wu & He 2018).

    With batch norm, features of an image depend on the others of its batch in training, and small batches are noisy. A
    group has at least two channels: otherwise nothing would remain of an image of one pixel.
    """
    groups = 1 if channels % 2 else math.gcd(channels // 2, GROUPS)
    return nn.GroupNorm(groups, channels, eps=SMALLEST)
