"""Attention that sees: blocks for convolutional networks, image encoders, and what explains them.

An image becomes S = h·w cells that stand row by row, and from there all is as with words: the same `Encoded`, the same
decoders and searches. Wherever a module attends on the way, `look=True` of a method named `see` tells where.
"""
