"""Reaches, one a file; importing this registers them."""

from regard.attention.reach.everywhere import Everywhere

__all__ = ["Everywhere"]
