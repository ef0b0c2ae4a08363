"""The image classifier."""

from typing import NamedTuple

import torch
from torch import nn

from regard.layers.dropout import Dropout
from regard.shapes import Bool, Float, Tensor
from regard.vision.blocks.base import Looks
from regard.vision.encoder import ImageEncoder
from regard.vision.grid_positions import Grid
from regard.vision.pixels import from_pixels


class Classified(NamedTuple):
    """Result of a classifier."""

    logits: Float[Tensor, "B W"]
    """One logit for each class."""
    grid: Grid
    """Rows and columns of the encoder's cells."""
    looks: Looks
    """Attention weights of the encoder, by module name; empty if not requested."""


class Classifier(nn.Module):
    """An image encoder and a linear map over its summary: the mean of its cells, or the class token."""

    def __init__(self, encoder: ImageEncoder, classes: int, dropout: Dropout) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = dropout
        self.output = nn.Linear(encoder.state_width, classes)

    def forward(self, source: Tensor, mask: Bool[Tensor, "B S"] | None = None) -> Float[Tensor, "B W"]:
        """Return logits for images (B×C×h×w, or pixels B×h×w×C), or for regions with a mask of the real ones."""
        source = from_pixels(source) if source.dtype == torch.uint8 else source
        logits: Tensor = self.output(self.dropout(self.encoder(source, mask).summary)[:, 0])
        return logits

    def see(self, source: Tensor, mask: Bool[Tensor, "B S"] | None = None, look: bool = True) -> Classified:
        """Classify, and return the attention weights too, as `ImageEncoder.see` does."""
        source = from_pixels(source) if source.dtype == torch.uint8 else source
        encoded, grid, looks = self.encoder.see(source, mask, look)
        return Classified(self.output(self.dropout(encoded.summary)[:, 0]), grid, looks)
