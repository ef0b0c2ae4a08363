"""The whole model: a source embedding, an encoder and a decoder."""

from collections.abc import Callable
from typing import Any

from torch import nn

from regard.attention.score import Location
from regard.layers.dropout import Dropout
from regard.layers.embedding import Embedding
from regard.masks import reversal
from regard.models.protocol import Decoder, Encoded, Encoder
from regard.shapes import Bool, Int, Tensor


class Seq2Seq(nn.Module):
    """An encoder-decoder; without a source embedding, a language model."""

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
        """Whether it reads a source; a language model does not."""
        return self.source_embedding is not None

    @property
    def most_read(self) -> int | None:
        """Maximum source length that it can read and attend to; None if unlimited."""
        limits = [module.longest for module in self.decoder.modules() if isinstance(module, Location)]
        if self.source_embedding is not None and self.source_embedding.longest is not None:
            limits.append(self.source_embedding.longest)
        return min(limits, default=None)

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Encode the source, reversed if the model is configured so; states are in the original order all the same.

        `lengths` is the number of tokens of each row, on the host, for encoders that need it there.
        """
        if self.source_embedding is None:
            empty = next(self.parameters()).new_zeros(*source.shape, 0)
            return self.encoder(empty, mask)  # type: ignore[no-any-return]
        embedding = self.source_embedding
        return self.turned(source, mask, lambda read: self.encoder(self.dropout(embedding(read)), mask, lengths))

    def turned(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], reading: Callable[[Tensor], Encoded]
    ) -> Encoded:
        """Apply `reading` to the tokens in the order that the model reads, and restore the order of its result."""
        order = reversal(mask, kept=1) if self.reverse_source else None  # the end token stays at the end
        read = source if order is None else source.gather(1, order)
        encoded = reading(read)
        if self.decoder.copies:
            encoded = encoded._replace(tokens=source)
        if order is None:
            return encoded
        # A reversal is its own inverse.
        columns = order[..., None].expand_as(encoded.states)
        memories = None if encoded.memories is None else encoded.memories.gather(1, columns)
        return encoded._replace(states=encoded.states.gather(1, columns), memories=memories)
