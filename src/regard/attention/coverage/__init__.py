"""Coverage mechanisms, one per file; importing this module registers them."""

from regard.attention.coverage.see2017 import See
from regard.attention.coverage.tu2016 import Tu

__all__ = ["See", "Tu"]
