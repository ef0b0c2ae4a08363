"""Attention blocks for convolutional networks, one paper per file; importing this module registers them."""

from regard.vision.blocks.base import Block, BlockSizes, Seen, blocks, watched_blocks
from regard.vision.blocks.non_local import Concatenation, DotProduct, EmbeddedGaussian, Gaussian, NonLocal
from regard.vision.blocks.soft_mask import SoftMask, SpatialMask
from regard.vision.blocks.squeeze import SqueezeExcitation

__all__ = [
    "Block",
    "BlockSizes",
    "Concatenation",
    "DotProduct",
    "EmbeddedGaussian",
    "Gaussian",
    "NonLocal",
    "Seen",
    "SoftMask",
    "SpatialMask",
    "SqueezeExcitation",
    "blocks",
    "watched_blocks",
]
