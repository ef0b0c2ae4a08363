"""Registries of encoders and decoders, and what decoders are built from."""

from collections.abc import Callable
from typing import Any, NamedTuple

from regard.config import ModelConfig
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.models.protocol import Decoder, Encoder, Summary
from regard.registry import Registry


class DecoderParts(NamedTuple):
    """What `regard.models.build` passes to a decoder together with the configuration."""

    embedding: Embedding
    """The target embedding; with `model.tie=all`, the source's too."""
    dropout: Dropout
    state_width: int
    """Width of the encoder's states."""
    summary: Summary
    """Contents of the encoder's summary."""
    target_size: int


encoders: Registry[Callable[[ModelConfig, Dropout], Encoder]] = Registry("encoder", "encoders")
decoders: Registry[Callable[[ModelConfig, DecoderParts], Decoder[Any]]] = Registry("decoder", "decoders")
