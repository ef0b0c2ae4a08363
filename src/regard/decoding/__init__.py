"""Searching for translations, over the Decoder protocol alone."""
