"""Position encodings, one a file; importing this registers them."""

from regard.attention.positions.base import Position, PositionSizes, positions
from regard.attention.positions.sinusoidal import Sinusoidal

__all__ = ["Position", "PositionSizes", "Sinusoidal", "positions"]
