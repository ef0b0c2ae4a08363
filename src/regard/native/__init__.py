"""Decoding in C++: the common encoders, steps of the common decoders and beam search over them, compiled on first use.

Everything works without it. `library` says whether it is there, `plan` whether an encoder or a decoder is one that it
knows, `reading` encodes and `engine` searches. `regard.decoding` decides.
"""
