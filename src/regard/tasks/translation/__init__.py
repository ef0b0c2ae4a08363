"""Translation: texts in, texts out. Inference is in `regard.decoding.translator`."""
