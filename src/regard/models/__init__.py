"""Encoders, decoders, the models made of them, and model folders on disk."""
