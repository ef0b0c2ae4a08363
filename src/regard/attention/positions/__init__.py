"""Position encodings, one per file; importing this module registers them."""

from regard.attention.positions.alibi import Alibi
from regard.attention.positions.base import Position, PositionSizes, positions
from regard.attention.positions.learned import Learned
from regard.attention.positions.rotary import Rotary
from regard.attention.positions.shaw import Shaw
from regard.attention.positions.sinusoidal import Sinusoidal

__all__ = ["Alibi", "Learned", "Position", "PositionSizes", "Rotary", "Shaw", "Sinusoidal", "positions"]
