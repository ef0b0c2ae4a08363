"""Attention traces, and every way to display them."""
