"""Decoding in C++: the common encoders, steps of the common decoders and beam search over them, compiled on first use.

Everything works without it. `library` loads it, `weight_layout` lays out the weights of the encoders and decoders that
it supports, `encoder` encodes and `decoder` searches. `regard.decoding` decides when to use it.
"""
