"""Interface of stems, which compute cells from an image."""

from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import nn

from regard.config import ImageConfig
from regard.errors import ModelError
from regard.registry import Registry
from regard.shapes import Bool, Float, Tensor
from regard.vision.grid_positions import Grid


class Cells(NamedTuple):
    """An image as cells."""

    cells: Float[Tensor, "B S D"]
    """Row by row."""
    mask: Bool[Tensor, "B S"]
    """Which are real; all are, except padding of regions."""
    grid: Grid
    """Number of rows and columns; objects are one row."""


class Stem(nn.Module, ABC):
    """Computes cells from an image, or from its regions."""

    grid: Grid
    """Grid of an image of `model.image.size`, for which positions are built."""

    def __init__(self, config: ImageConfig) -> None:
        super().__init__()

    @abstractmethod
    def forward(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> Cells:
        """Encode images B×C×h×w of any suitable size, or regions B×S×D with a mask of the real ones."""


stems: Registry[type[Stem]] = Registry("stem", "stems")


def check_image(image: Float[Tensor, "B ..."], mask: Tensor | None, channels: int) -> None:
    """Refuse anything but a batch of images with this many channels."""
    if image.dim() != 4 or image.shape[1] != channels or mask is not None:
        got = f"{'×'.join(map(str, image.shape))}{' with a mask' if mask is not None else ''}"
        raise ModelError(
            f"This model reads images with {channels} channels, as batch × {channels} × rows × columns without a mask, "
            f"got {got}: change the images, or train with model.image.channels and model.image.kind to match them."
        )
