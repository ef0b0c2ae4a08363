"""Decoding methods, written against the Decoder interface alone."""
