"""The registry of decoding methods, and the request that they take."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.terminology.constraint_state import Constraints
from regard.models.protocol import Decoder, Encoded
from regard.registry import Registry


def spell(tokens: Sequence[int]) -> str:
    """Write token ids as text: a default where there is no tokenizer."""
    return " ".join(map(str, tokens))


@dataclass(frozen=True)
class DecodingRequest:
    """What a search should return; `DecodingConfig` says how to search."""

    bos: int
    eos: int
    banned: Sequence[int] = ()
    """Tokens that are never generated."""
    prefix: Sequence[Sequence[int]] | None = None
    """The tokens that each sentence must start with."""
    n_best: int = 1
    candidates: int = 0
    longest: int = 0
    """Maximum length if `decoding.max_length` is not set; 0: it depends on the source's length."""
    most: int | None = None
    """Maximum length that the model supports; None if unlimited."""
    keys: Sequence[int] | None = None
    """A key for each sentence's random numbers; its index in the batch if None."""
    write: Callable[[Sequence[int]], str] = spell
    """Converts tokens to text."""
    look: bool = True
    """Whether to return attention weights."""
    words: Sequence[NDArray[np.int32]] | None = None
    """The only tokens allowed for each sentence, sorted; None for all."""
    constraints: Sequence[Constraints] | None = None
    """The terms that each sentence must contain; None if there are none."""


Method = Callable[[Decoder[Any], Encoded, DecodingConfig, DecodingRequest], list[list[Hypothesis]]]

methods: Registry[Method] = Registry("decoding method", "methods")
