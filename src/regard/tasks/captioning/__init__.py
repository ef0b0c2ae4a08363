"""Captioning: pictures in, texts out."""
