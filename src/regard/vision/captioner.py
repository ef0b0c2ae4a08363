"""The captioning model: an image encoder and a decoder."""

from typing import Any

import torch

from regard.layers.dropout import Dropout
from regard.models.protocol import Decoder, Encoded
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Bool, Int, Tensor
from regard.vision.encoder import ImageEncoder, EncodedImage
from regard.vision.pixels import from_pixels


class Captioner(Seq2Seq):
    """A `Seq2Seq` that reads images: it works with whatever trains, searches or shows a translator."""

    encoder: ImageEncoder

    def __init__(self, encoder: ImageEncoder, decoder: Decoder[Any], dropout: Dropout) -> None:
        super().__init__(None, encoder, decoder, dropout, reverse_source=False)

    @property
    def reads(self) -> bool:
        """Whether it reads a source: it reads an image."""
        return True

    def encode(
        self,
        source: Tensor,
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Encoded:
        """Encode images B×C×h×w, pixels B×h×w×C (uint8), or regions B×S×D with a mask of the real ones."""
        encoded: Encoded = self.encoder(*_read(source, mask))
        return encoded

    def see(self, source: Tensor, mask: Bool[Tensor, "B S"] | None = None, look: bool = True) -> EncodedImage:
        """Encode, and return the grid of the cells and the attention on the way."""
        return self.encoder.see(*_read(source, mask), look)


def _read(source: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Convert uint8 pixels, which have no mask, to the network's input; leave others unchanged."""
    return (from_pixels(source), None) if source.dtype == torch.uint8 else (source, mask)
