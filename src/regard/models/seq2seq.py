"""The whole model: an embedding and an encoder that read, a decoder that writes."""

from typing import Any

import torch
from torch import nn

from regard.attention.score import Location
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.models.protocol import Decoder, Encoded, Encoder
from regard.shapes import Bool, Int, Tensor


class Seq2Seq(nn.Module):
    """A sequence in, a sequence out."""

    def __init__(
        self,
        source_embedding: Embedding | None,
        encoder: Encoder,
        decoder: Decoder[Any],
        dropout: Dropout,
        reverse_source: bool,
    ) -> None:
        super().__init__()
        self.source_embedding = source_embedding
        self.encoder = encoder
        self.decoder = decoder
        self.dropout = dropout
        self.reverse_source = reverse_source

    @property
    def reads(self) -> bool:
        """Whether there is a source to read; a language model has none."""
        return self.source_embedding is not None

    @property
    def most_read(self) -> int | None:
        """Most tokens of a source that it can read and look at; None for any number."""
        limits = [module.longest for module in self.decoder.modules() if isinstance(module, Location)]
        if self.source_embedding is not None and self.source_embedding.longest is not None:
            limits.append(self.source_embedding.longest)
        return min(limits, default=None)

    def encode(self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"]) -> Encoded:
        """Read the source, in reverse where the model does; states are in the order of the source all the same."""
        if self.source_embedding is None:
            empty = next(self.parameters()).new_zeros(*source.shape, 0)
            return self.encoder(empty, mask)  # type: ignore[no-any-return]
        order = reversal(mask) if self.reverse_source else None
        read = source if order is None else source.gather(1, order)
        encoded: Encoded = self.encoder(self.dropout(self.source_embedding(read)), mask)
        if order is None:
            return encoded
        # A reversal undoes itself.
        columns = order[..., None].expand_as(encoded.states)
        memories = None if encoded.memories is None else encoded.memories.gather(1, columns)
        return encoded._replace(states=encoded.states.gather(1, columns), memories=memories)


def reversal(mask: Bool[Tensor, "B S"]) -> Int[Tensor, "B S"]:
    """Return the order that reverses each row's words and leaves its end mark and its padding where they are."""
    positions = torch.arange(mask.shape[1], device=mask.device).expand_as(mask)
    last_word = mask.sum(dim=1, keepdim=True) - 2
    return torch.where(positions <= last_word, last_word - positions, positions)
