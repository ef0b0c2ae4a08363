"""The names of the ways to decode, and what each of them is asked for."""

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
    """Write tokens as their numbers: what can be compared where no tokenizer is known."""
    return " ".join(map(str, tokens))


@dataclass(frozen=True)
class Request:
    """What a search is to give, beside how it is to search."""

    bos: int
    eos: int
    banned: Sequence[int] = ()
    """Tokens that are never written."""
    prefix: Sequence[Sequence[int]] | None = None
    """The tokens that each sentence must start with."""
    n_best: int = 1
    candidates: int = 0
    longest: int = 0
    """Most tokens of a sentence where `decoding.max_length` says nothing; 0: it depends on the source's length."""
    most: int | None = None
    """Most tokens that the model can write, whatever is asked for; None for any number."""
    keys: Sequence[int] | None = None
    """A number for each sentence that its random draws come from; its place in the batch where there are none."""
    write: Callable[[Sequence[int]], str] = spell
    """Make text of tokens."""
    look: bool = True
    """Whether to tell where the model looked."""
    words: Sequence[NDArray[np.int32]] | None = None
    """The only tokens that each sentence may be written with, in order; None for all."""
    constraints: Sequence[Constraints] | None = None
    """What each sentence must hold; None where none must hold anything."""


Method = Callable[[Decoder[Any], Encoded, DecodingConfig, Request], list[list[Hypothesis]]]

methods: Registry[Method] = Registry("decoding method", "methods")
