"""Traces of attention, and every way to look at them."""
