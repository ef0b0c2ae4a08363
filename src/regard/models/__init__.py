"""Encoders, decoders, the systems made of them, and their folder on disk."""
