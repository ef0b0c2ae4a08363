"""Reaches, one per file; importing this module registers them."""

from regard.attention.reach.causal import Causal
from regard.attention.reach.chunked import Chunked
from regard.attention.reach.dilated import Dilated
from regard.attention.reach.global_reach import Everywhere
from regard.attention.reach.local_m import LocalM
from regard.attention.reach.local_p import LocalP
from regard.attention.reach.strided import Strided
from regard.attention.reach.window import SlidingWindow

__all__ = ["Causal", "Chunked", "Dilated", "Everywhere", "LocalM", "LocalP", "SlidingWindow", "Strided"]
