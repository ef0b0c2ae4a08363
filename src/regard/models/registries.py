"""The names of encoders and decoders, and what they are made of."""

from collections.abc import Callable
from typing import Any, NamedTuple

from regard.config import ModelConfig
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.models.protocol import Decoder, Encoder, Summary
from regard.registry import Registry


class Parts(NamedTuple):
    """What `regard.models.build` gives to a decoder beside the configuration."""

    embedding: Embedding
    """Of the target; with `model.tie=all` it is the source's too."""
    dropout: Dropout
    state_width: int
    """Width of the encoder's states."""
    summary: Summary
    """What the encoder's summary holds."""
    target_size: int


encoders: Registry[Callable[[ModelConfig, Dropout], Encoder]] = Registry("encoder", "encoders")
decoders: Registry[Callable[[ModelConfig, Parts], Decoder[Any]]] = Registry("decoder", "decoders")
