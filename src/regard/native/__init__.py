"""Decoding in C++: the common encoders, the steps of the common decoders and beam search over them, compiled on first use.

Everything works without it. `library` says whether it is there, `plan` whether a decoder is one that it knows, and
`engine` searches. `regard.decoding` decides.
"""
