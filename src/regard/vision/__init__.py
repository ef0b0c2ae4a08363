"""Attention in vision: blocks for convolutional networks, image encoders, and explanations of their output.

An image becomes S = h·w cells, row by row. From there on all is as with text: the same `Encoded`, decoders and
searches. Methods named `see` also return the attention weights of every module on the way.
"""
