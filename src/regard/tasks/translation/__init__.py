"""Translating: texts in, texts out. What reads is `regard.decoding.translator.Translator`."""
