"""Ways to know what earlier looks have seen, one a file; importing this registers them."""

from regard.attention.coverage.see import See
from regard.attention.coverage.tu import Tu

__all__ = ["See", "Tu"]
