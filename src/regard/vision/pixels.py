"""From pixels as files have them to what networks read."""

import torch

from regard.errors import ModelError
from regard.shapes import Float, Tensor


def from_pixels(images: Tensor) -> Float[Tensor, "B C h w"]:
    """Turn uint8 images B×h×w×C into numbers from -1 to 1, B×C×h×w.

    Best on the device that reads them: bytes are a quarter of what floats would be on the way there.
    """
    if images.dtype != torch.uint8 or images.dim() != 4:
        got = f"{'×'.join(map(str, images.shape))} of {str(images.dtype).removeprefix('torch.')}"
        raise ModelError(f"Pixels are uint8, batch × rows × columns × channels, got {got}.")
    return (images.permute(0, 3, 1, 2).float() / 127.5 - 1).contiguous()
