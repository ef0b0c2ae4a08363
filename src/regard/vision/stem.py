"""The contract of stems: what makes cells of an image."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import nn

from regard.config import ImageConfig
from regard.errors import ModelError
from regard.registry import Registry
from regard.shapes import Bool, Float, Tensor
from regard.vision.grid_positions import Grid


class Cells(NamedTuple):
    """An image in pieces."""

    cells: Float[Tensor, "B S D"]
    """Row by row."""
    mask: Bool[Tensor, "B S"]
    """Which are real; all are, but for regions that were padded."""
    grid: Grid
    """How many rows and columns they are; objects are one row."""


class Stem(nn.Module, ABC):
    """Makes cells of an image, or of regions of one."""

    grid: Grid
    """What an image of `model.image.size` becomes: what positions are made for."""

    def __init__(self, config: ImageConfig) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> Cells:
        """Read images B×C×h×w of any size that fits, or regions B×S×D with a mask of those that are real."""


stems: Registry[type[Stem]] = Registry("stem", "stems")


def check_image(image: Float[Tensor, "B ..."], mask: Tensor | None, channels: int) -> None:
    """Refuse what is not a batch of images with this many channels."""
    if image.dim() != 4 or image.shape[1] != channels or mask is not None:
        got = f"{'×'.join(map(str, image.shape))}{' with a mask' if mask is not None else ''}"
        raise ModelError(
            f"This model reads images with {channels} channels, as batch × {channels} × rows × columns without a mask, "
            f"got {got}: change the images, or train with model.image.channels and model.image.kind as they are."
        )
