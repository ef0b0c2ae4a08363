"""Shared by the demos of `regard demo`: from data through training to pictures of attention."""
