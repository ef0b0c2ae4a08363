"""Terminology constraints: terms that a translation must contain, and the beam search that keeps them."""
