"""Score functions, one a file; importing this registers them."""

from regard.attention.score.additive import Additive
from regard.attention.score.dot import Dot
from regard.attention.score.general import General
from regard.attention.score.scaled_dot import ScaledDot

__all__ = ["Additive", "Dot", "General", "ScaledDot"]
