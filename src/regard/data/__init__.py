"""Corpora, tokenizers, the cache of tokens, and batches of them."""
