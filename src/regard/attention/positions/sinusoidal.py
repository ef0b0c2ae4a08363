"""Sinusoidal positions."""

import math

import torch

from regard.attention.positions.base import Position, PositionSizes, positions
from regard.errors import ConfigError
from regard.shapes import Float, Place, Tensor, places


@positions.register("sinusoidal")
class Sinusoidal(Position):
    r"""Add sines and cosines of geometrically growing wavelengths to embeddings (Vaswani et al. 2017, section 3.5).

    .. math:: PE_{(pos, 2i)} = \sin(pos / 10000^{2i/d}) \qquad PE_{(pos, 2i+1)} = \cos(pos / 10000^{2i/d})

    Nothing is learned, so there is no maximum length. Differs from the paper: nothing.
    """

    absolute = True

    def __init__(self, sizes: PositionSizes) -> None:
        super().__init__(sizes)
        if sizes.width % 2:
            raise ConfigError(
                f"Sinusoidal positions need an even width, got {sizes.width}: change model.embedding, or set "
                "model.positions=learned."
            )

    def embed(self, embedded: Float[Tensor, "B T E"], first: Place) -> Float[Tensor, "B T E"]:
        """Add the sines and cosines."""
        _, steps, width = embedded.shape
        # At least float32: half precision cannot tell neighbouring positions apart.
        kind = torch.promote_types(embedded.dtype, torch.float32)
        place = places(first, steps, embedded.device, kind)
        rate = torch.exp(torch.arange(0, width, 2, device=embedded.device, dtype=kind) * (-math.log(10000.0) / width))
        angle = place[:, None] * rate
        return embedded + torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).to(embedded.dtype)
