"""An encoder in the compiled library, built from its modules."""

import weakref

import torch

from regard.models.bridge import mean_state
from regard.models.protocol import Encoded
from regard.models.seq2seq import Seq2Seq
from regard.native.library import library
from regard.native.weight_layout import TRANSFORMER, EncoderPlan, UnknownError
from regard.shapes import Bool, Int, Tensor


class Reading:
    """A model's embedding and encoder with a copy of their current weights; a drop-in for `Seq2Seq.encode`."""

    def __init__(self, model: Seq2Seq, precision: str = "float32", positions: int = 512) -> None:
        """Copy the weights; raises `UnknownError` for an encoder that the library does not support."""
        found = library()
        if found.calls is None or not found.offers(precision):
            raise UnknownError(found.words)
        if model.source_embedding is None:
            raise UnknownError("a model without a source")
        self.calls = found.calls
        self.model = model
        embedding = model.source_embedding
        self.words = embedding.num_embeddings
        self.most = None if embedding.position is None else embedding.longest or positions
        """Maximum source length; None if unlimited."""
        with torch.inference_mode():
            plan = EncoderPlan(model.encoder, embedding, positions)
        self.has_summary = plan.kind != TRANSFORMER
        self.handle = plan.make(self.calls.regard_encoder, precision)
        weakref.finalize(self, self.calls.regard_forget_encoder, self.handle)

    def __call__(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"], threads: int = 1
    ) -> Encoded:
        """Encode sources with this many threads."""
        return self.model.turned(source, mask, lambda read: self._read(read, mask, lengths, threads))

    def _read(
        self, source: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"], threads: int
    ) -> Encoded:
        tokens, lengths = source.int().contiguous(), lengths.to("cpu", torch.int64).contiguous()
        self._check(tokens, lengths)
        kept, (count, longest) = self.model.encoder.summary, source.shape
        layers = kept.layers * (2 if kept.has_memory else 1) if self.has_summary else 0
        # Whatever torch's defaults are, the library writes float32 into host memory.
        states = torch.zeros(count, longest, self.model.encoder.state_width, dtype=torch.float32, device="cpu")
        summary = torch.zeros(count, layers, kept.width * kept.directions, dtype=torch.float32, device="cpu")
        done = self.calls.regard_read(
            self.handle,
            tokens.data_ptr(),
            lengths.data_ptr(),
            count,
            longest,
            threads,
            states.data_ptr(),
            summary.data_ptr(),
        )
        if not done:
            raise MemoryError("Out of memory while encoding: translate in smaller batches.")
        encoded = Encoded(states, mask, summary)
        return encoded if self.has_summary else encoded._replace(summary=mean_state(encoded)[:, None])

    def _check(self, tokens: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> None:
        """Refuse indices beyond the end of a table."""
        if not tokens.numel():
            return
        lowest, highest = (int(part) for part in tokens.aminmax())
        if lowest < 0 or highest >= self.words:
            raise IndexError(f"Token ids must be from 0 to {self.words - 1}, got {lowest} to {highest}.")
        if self.most is not None and int(lengths.max()) > self.most:
            raise IndexError(f"A source has {int(lengths.max())} tokens, but the model has only {self.most} positions.")
