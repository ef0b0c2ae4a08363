"""Spatial attention: a mask from a branch with a large receptive field."""

import torch
from torch import nn
from torch.nn import functional

from regard.errors import ConfigError
from regard.shapes import Float, Tensor
from regard.vision.blocks.base import Block, BlockSizes, blocks
from regard.vision.convolution import SMALLEST, Convolutions
from regard.vision.residual import ResidualUnit


class Hourglass(nn.Module):
    """Halve rows and columns, run a smaller hourglass, and upsample again (section 3.2).

    A residual unit on the side bypasses the inner hourglass, so that detail lost in it is added back.
    """

    def __init__(self, channels: int, depth: int, made: Convolutions) -> None:
        super().__init__()
        self.down, self.up = (ResidualUnit(channels, channels, 1, made) for _ in range(2))
        self.side = ResidualUnit(channels, channels, 1, made) if depth > 1 else None
        self.within = Hourglass(channels, depth - 1, made) if depth > 1 else None

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Run; works for any number of rows and columns."""
        below = self.down(functional.max_pool2d(features, 3, stride=2, padding=1))
        if self.within is not None and self.side is not None:
            below = self.within(below) + self.side(below)
        return functional.interpolate(self.up(below), features.shape[2:], mode="bilinear", align_corners=False)


class MaskBranch(nn.Module):
    """The soft mask branch: an hourglass, two 1×1 convolutions, and a sigmoid (section 3.2)."""

    def __init__(self, channels: int, depth: int, made: Convolutions, across: bool) -> None:
        """`across` says to normalise each map before the sigmoid."""
        super().__init__()
        self.hourglass = Hourglass(channels, depth, made)
        self.norm_1, self.norm_2 = made.norm(channels), made.norm(channels)
        self.W_1 = made.filters(channels, channels, 1)
        self.W_2 = nn.Conv2d(channels, channels, 1, bias=not across)  # the norm would cancel a bias
        self.across = across

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Return the mask."""
        found = self.W_1(functional.relu(self.norm_1(self.hourglass(features))))
        found = self.W_2(functional.relu(self.norm_2(found)))
        return torch.sigmoid(functional.layer_norm(found, found.shape[2:], eps=SMALLEST) if self.across else found)


@blocks.register("soft-mask")
class SoftMask(Block):
    r"""Scale features by one plus a mask over positions and channels (Wang et al. 2017, equations 3 and 4: "mixed").

    .. math:: H_{i,c}(x) = (1 + M_{i,c}(x)) \cdot T_{i,c}(x) \qquad M_{i,c} = 1 / (1 + \exp(-x_{i,c}))

    where `x_{i,c}` in the second equation is the output of the branch. `T` are `model.image.trunk` residual units; with
    none, `T(x) = x`, and the stage before serves as the trunk.
    Differs from the paper: norms are over groups of channels, unless `model.image.normalise` is batch; the number of
    residual units between poolings, r, is one; and the stage before the block replaces its pre-processing units.
    """

    across = False

    def __init__(self, sizes: BlockSizes) -> None:
        super().__init__(sizes)
        if sizes.depth < 1 or sizes.trunk < 0:
            name, least = ("depth", 1) if sizes.depth < 1 else ("trunk", 0)
            raise ConfigError(f"model.image.{name} must be at least {least}, got {getattr(sizes, name)}.")
        channels = sizes.channels
        self.mask = MaskBranch(channels, sizes.depth, sizes.made, self.across)
        self.trunk = nn.Sequential(*(ResidualUnit(channels, channels, 1, sizes.made) for _ in range(sizes.trunk)))

    @property
    def attends(self) -> nn.Module:
        """Its mask, B×C×h×w."""
        return self.mask

    def forward(self, features: Float[Tensor, "B C h w"]) -> Float[Tensor, "B C h w"]:
        """Run both branches."""
        raised: Tensor = (1 + self.mask(features)) * self.trunk(features)
        return raised


@blocks.register("soft-mask-spatial")
class SpatialMask(SoftMask):
    r"""Scale features by a mask that is normalised over positions (Wang et al. 2017, equation 6: "spatial attention").

    .. math:: M_{i,c} = 1 / (1 + \exp(-(x_{i,c} - \mathrm{mean}_c) / \mathrm{std}_c))

    Each map is normalised over its positions before the sigmoid, so that no channel is scaled up as a whole.
    Differs from the paper: as the soft mask does.
    """

    across = True
