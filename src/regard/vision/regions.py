"""Regions of an image with given features: from another network, or of detected objects."""

import torch
from torch import nn

from regard.config import ImageConfig
from regard.errors import ConfigError, ModelError
from regard.masks import erase
from regard.shapes import Bool, Float, Tensor
from regard.vision.stem import Cells, Stem, stems


@stems.register("regions")
class Regions(Stem):
    """Project given features to cells (Xu et al. 2015, section 3.1.1; Anderson et al. 2018, section 3.1).

    With `model.image.size` they are a grid with that number of rows and of columns, row by row; with a size of 0 they
    are objects anywhere in the image, any number of them, with a mask of the real ones.
    Differs from the papers: they use the features unchanged, here there is a linear map, and with
    `model.image.normalised` a layer norm, for features of any scale.
    """

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        if config.channels < 1:
            raise ConfigError(f"model.image.channels must be at least 1, got {config.channels}.")
        if config.size == 0 and config.positions != "none":
            raise ConfigError(
                "Regions anywhere in the image (model.image.size=0) have no rows and columns: set model.image.size to "
                "the number of rows, or model.image.positions=none."
            )
        self.channels, self.size = config.channels, config.size
        self.W = nn.Linear(config.channels, config.width)
        self.norm = nn.LayerNorm(config.width) if config.normalised else None
        self.grid = (config.size, config.size)

    def forward(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> Cells:
        """Project every region; padding gives zero, whatever it contains."""
        if source.dim() != 3 or source.shape[2] != self.channels:
            raise ModelError(
                f"This model reads regions, as batch × regions × {self.channels} features (model.image.channels), got "
                f"{'×'.join(map(str, source.shape))}."
            )
        count = source.shape[1]
        if self.size and count != self.size**2:
            raise ModelError(
                f"There are {count} regions, but model.image.size={self.size} means {self.size} rows of "
                f"{self.size}: change it, or set it to 0 if they are objects anywhere in the image."
            )
        real = torch.ones(source.shape[:2], dtype=torch.bool, device=source.device) if mask is None else mask
        cells = self.W(erase(source, real))
        cells = erase(cells if self.norm is None else self.norm(cells), real)
        return Cells(cells, real, self.grid if self.size else (1, count))
