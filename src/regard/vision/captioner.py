"""An image in, a sequence out."""

from typing import Any

import torch

from regard.layers.dropout import Dropout
from regard.models.protocol import Decoder, Encoded
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Bool, Int, Tensor
from regard.vision.encoder import EncodedImage, ImageEncoder
from regard.vision.pixels import from_pixels


class Captioner(Seq2Seq):
    """A translator that reads images: whatever trains, searches or shows a `Seq2Seq` takes it as one."""

    encoder: ImageEncoder

    def __init__(self, encoder: ImageEncoder, decoder: Decoder[Any], dropout: Dropout) -> None:
        super().__init__(None, encoder, decoder, dropout, reverse_source=False)

    @property
    def reads(self) -> bool:
        """An image is read."""
        return True

    def encode(
        self,
        source: Tensor,
        mask: Bool[Tensor, "B S"] | None = None,
        lengths: Int[Tensor, " B"] | None = None,
    ) -> Encoded:
        """Read images B×C×h×w, pixels B×h×w×C (uint8), or regions B×S×D with a mask of those that are real."""
        encoded: Encoded = self.encoder(*_read(source, mask))
        return encoded

    def see(self, source: Tensor, mask: Bool[Tensor, "B S"] | None = None, look: bool = True) -> EncodedImage:
        """Read, and tell how the cells lie that the decoder's weights are of."""
        return self.encoder.see(*_read(source, mask), look)


def _read(source: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """Make what a network reads of pixels as files have them; of these, no mask can tell more."""
    return (from_pixels(source), None) if source.dtype == torch.uint8 else (source, mask)
