"""Convert pixels from files to the input of networks."""

import torch

from regard.errors import ModelError
from regard.shapes import Float, Tensor


def from_pixels(images: Tensor) -> Float[Tensor, "B C h w"]:
    """Convert uint8 images B×h×w×C to floats from -1 to 1, B×C×h×w.

    Best done on the model's device: uint8 is a quarter of the data to copy.
    """
    if images.dtype != torch.uint8 or images.dim() != 4:
        got = f"{'×'.join(map(str, images.shape))} of {str(images.dtype).removeprefix('torch.')}"
        raise ModelError(f"Pixels must be uint8, batch × rows × columns × channels, got {got}.")
    return (images.permute(0, 3, 1, 2).float() / 127.5 - 1).contiguous()
