"""Open SentencePiece models, which may come from anybody.

SentencePiece is written in C++ and trusts its models: a table that rewrites characters, for one, is followed without
asking where it leads. Training never makes such tables, so a model that has one is refused before SentencePiece
reads it, as is everything else that ours have not. The rest is left to SentencePiece, which refuses what is no model.
"""

from typing import Any, Final

FOREIGN: Final = "not a SentencePiece model that regard made"
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
"""Fields of `ModelProto`; each model of ours has these and no others."""
_LONGEST: Final = {_PIECE: 1 << 12, _TRAINER: 1 << 16, _NORMALIZER: 64}
"""Bytes: the normaliser's settings are a name and some switches, unless it has a table."""
_MOST: Final = 1_000_000
"""Pieces; for each SentencePiece needs many times the memory that it takes in the file."""
_MARKS: Final = (0, 1, 2, 3)
"""The ids of padding, unknown, start and end."""
_BYTES: Final = range(len(_MARKS), len(_MARKS) + 256)
"""The ids of single bytes, in order."""


def open_model_file(model: bytes) -> Any:
    """Return SentencePiece's processor of a model; raise a ValueError unless the model is one that training writes."""
    import sentencepiece

    check_model_file(model)
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        every = list(range(processor.get_piece_size()))
        processor.id_to_piece(every)
    except (RuntimeError, UnicodeDecodeError):
        raise ValueError(FOREIGN) from None
    marks = (processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id())
    if marks != _MARKS or [i for i, is_byte in enumerate(processor.is_byte(every)) if is_byte] != list(_BYTES):
        raise ValueError(FOREIGN)
    return processor


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
