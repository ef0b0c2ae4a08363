"""What is checked of a SentencePiece model before SentencePiece reads it.

SentencePiece is written in C++ and trusts its models: a table that rewrites characters, for one, is followed without
asking where it leads. Training never makes such tables, so a model that has one is refused, as is
everything else that ours have not. The rest is left to SentencePiece, which refuses what is no model.
"""

from typing import Final

FOREIGN: Final = "not a SentencePiece model that regard made"
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
"""Fields of `ModelProto`; each model of ours has these and no others."""
_LONGEST: Final = {_PIECE: 1 << 12, _TRAINER: 1 << 16, _NORMALIZER: 64}
"""Bytes: the normaliser's settings are a name and some switches, unless it has a table."""
_MOST: Final = 1_000_000
"""Pieces; for each SentencePiece needs many times the memory that it takes in the file."""


def check_model_file(model: bytes) -> None:
    """Raise a ValueError unless a model has pieces and settings as training writes them, and nothing else."""
    at, pieces, end = 0, 0, len(model)
    while at < end:
        key, size, at = model[at], 0, at + 1
        for shift in range(0, 28, 7):
            if at >= end:
                raise ValueError(FOREIGN)
            size |= (model[at] & 127) << shift
            at += 1
            if model[at - 1] < 128:
                break
        else:
            raise ValueError(FOREIGN)
        field, at = key >> 3, at + size
        pieces += field == _PIECE
        if key & 7 != 2 or size > _LONGEST.get(field, -1) or at > end or pieces > _MOST:
            raise ValueError(FOREIGN)
