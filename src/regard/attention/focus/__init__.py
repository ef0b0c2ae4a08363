"""Focuses, one a file; importing this registers them."""

from regard.attention.focus.softmax import Softmax

__all__ = ["Softmax"]
