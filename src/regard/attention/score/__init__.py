"""Score functions, one per file; importing this module registers them."""

from regard.attention.score.additive import Additive
from regard.attention.score.concat import Concat
from regard.attention.score.cosine import Cosine
from regard.attention.score.dot import Dot
from regard.attention.score.general import General
from regard.attention.score.location import Location
from regard.attention.score.scaled_dot import ScaledDot
from regard.attention.score.tanh import Tanh

__all__ = ["Additive", "Concat", "Cosine", "Dot", "General", "Location", "ScaledDot", "Tanh"]
