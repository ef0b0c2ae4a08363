"""The entries of export.json about a model: vocabularies, special tokens, decoding limits, input pictures."""

import json
import shutil
from pathlib import Path
from typing import Any

from regard.config import Config, DataConfig, ModelConfig
from regard.data.special_tokens import BOS, EOS, PAD, UNK
from regard.data.tokenizers import INDEX, Tokenizers
from regard.decoding.token_limits import SPARE
from regard.decoding.translator import banned_tokens
from regard.models.seq2seq import Seq2Seq
from regard.vision.encoder import ImageEncoder

Record = dict[str, Any]
SEARCH = (
    *("method", "beam", "length_penalty", "coverage_penalty", "patience", "min_length", "max_length", "max_ratio"),
    *("replace_unknown", "keep"),
)
"""The decoding settings of a model folder that its export keeps."""


def tokenized(folder: Path, tokenizers: Tokenizers, model: Seq2Seq, config: Config, out: Path) -> Record:
    """Copy the vocabularies of a sequence-to-sequence model; return the entries on tokens and decoding limits."""
    index = json.loads((folder / INDEX).read_bytes())
    sides: Record = {}
    for side in ("source", "target") if config.model.image is None else ("target",):
        file = index.get(side, index.get("joint"))["file"]
        shutil.copyfile(folder / file, out / file)
        tokenizer = getattr(tokenizers, side)
        tags = list(tokenizers.tags) if side == "source" else []
        sides[side] = {"kind": tokenizer.kind, "file": file, "size": tokenizer.size, "tags": tags}
    options = config.decoding
    search = {
        **{name: getattr(options, name) for name in SEARCH},
        "banned": list(banned_tokens(tokenizers.target, replaceable=config.model.image is None)),
        "spare": SPARE,
        "longest": 0 if model.reads else (config.data.max_length or DataConfig().max_length) + 1,
        "most": model.decoder.most,
        "most_read": model.most_read if config.model.image is None and model.reads else None,
    }
    marks = {"padding": PAD, "unknown": UNK, "start": BOS, "end": EOS}
    return {"reads": model.reads, **sides, "marks": marks, "copies": model.decoder.copies, "search": search}


def described(config: ModelConfig, model: Any) -> Record:
    """Return the entries on the input picture: kind, size, channels and grid of cells."""
    image = config.image
    assert image is not None
    assert isinstance(model.encoder, ImageEncoder)
    told: Record = {"kind": image.kind, "size": image.size, "channels": image.channels}
    if image.kind == "regions":
        return {**told, "cells": image.size**2 or None}
    rows, columns = model.encoder.stem.grid
    scale = "the graph itself scales pixels to the range -1 to 1: pixel / 127.5 - 1"
    return {**told, "normalisation": scale, "grid": [rows, columns], "cells": rows * columns}
