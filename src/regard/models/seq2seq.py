"""The whole model: an embedding and an encoder that read, a decoder that writes."""

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

    def encode(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Read the source, in reverse where the model does; states are in the order of the source all the same.

        `lengths` is how many tokens each row of the mask has, on the host, for encoders that need to know it there.
        """
        if self.source_embedding is None:
            empty = next(self.parameters()).new_zeros(*source.shape, 0)
            return self.encoder(empty, mask)  # type: ignore[no-any-return]
        embedding = self.source_embedding
        return self.turned(source, mask, lambda read: self.encoder(self.dropout(embedding(read)), mask, lengths))

    def turned(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], reading: Callable[[Tensor], Encoded]
    ) -> Encoded:
        """Give the tokens to what embeds and encodes them in the order that it wants, and turn back what it yields."""
        order = reversal(mask, kept=1) if self.reverse_source else None  # the end mark stays at the end
        read = source if order is None else source.gather(1, order)
        encoded = reading(read)
        if self.decoder.copies:
            encoded = encoded._replace(tokens=source)
        if order is None:
            return encoded
        # A reversal undoes itself.
        columns = order[..., None].expand_as(encoded.states)
        memories = None if encoded.memories is None else encoded.memories.gather(1, columns)
        return encoded._replace(states=encoded.states.gather(1, columns), memories=memories)
