"""Scores of translations, and of attention as word alignment."""
