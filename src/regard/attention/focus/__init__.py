"""Focuses, one per file; importing this module registers them."""

from regard.attention.focus.entmax import Entmax
from regard.attention.focus.gumbel import Gumbel
from regard.attention.focus.hard import Hard
from regard.attention.focus.monotonic import Monotonic
from regard.attention.focus.softmax import Softmax
from regard.attention.focus.sparsemax import Sparsemax

__all__ = ["Entmax", "Gumbel", "Hard", "Monotonic", "Softmax", "Sparsemax"]
