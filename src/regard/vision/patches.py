"""Cut an image into patches, as in the Vision Transformer."""

import torch
from torch import nn

from regard.config import ImageConfig
from regard.errors import ConfigError, ModelError
from regard.shapes import Bool, Float, Tensor
from regard.vision.stem import Cells, Stem, check_image, stems


@stems.register("patches")
class Patches(Stem):
    r"""Cut an image into patches, and project each to a vector (Dosovitskiy et al. 2020, section 3.1 and equation 1).

    .. math:: x_p^n E \qquad x_p^n \in \mathbb{R}^{P^2 C}, \quad E \in \mathbb{R}^{P^2 C \times D}

    which is a convolution with a stride of its size. With `model.image.layers` it is the paper's Vision Transformer.
    Differs from the paper: nothing (the projection has a bias, as in the authors' code).
    """

    def __init__(self, config: ImageConfig) -> None:
        super().__init__(config)
        for name in ("channels", "patch", "size"):
            if getattr(config, name) < 1:
                raise ConfigError(f"model.image.{name} must be at least 1, got {getattr(config, name)}.")
        if config.size % config.patch:
            raise ConfigError(
                f"model.image.patch is {config.patch}, which does not divide model.image.size, {config.size}: change "
                "one of them."
            )
        self.channels, self.patch = config.channels, config.patch
        self.E = nn.Conv2d(config.channels, config.width, config.patch, stride=config.patch)
        self.grid = (config.size // config.patch, config.size // config.patch)

    def forward(self, source: Float[Tensor, "B ..."], mask: Bool[Tensor, "B S"] | None) -> Cells:
        """Cut and project."""
        check_image(source, mask, self.channels)
        if not all(size and size % self.patch == 0 for size in source.shape[2:]):
            raise ModelError(
                f"An image of {source.shape[2]}×{source.shape[3]} pixels cannot be cut into patches of {self.patch}×"
                f"{self.patch} (model.image.patch): resize it to multiples of {self.patch}."
            )
        maps = self.E(source)
        cells = maps.flatten(2).transpose(1, 2)
        real = torch.ones(cells.shape[:2], dtype=torch.bool, device=cells.device)
        return Cells(cells, real, (maps.shape[2], maps.shape[3]))
