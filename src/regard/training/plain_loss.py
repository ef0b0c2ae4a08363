"""The plain cross-entropy with label smoothing, over real positions only. Training itself uses `fused_loss.py`.

Validation measures with `batch_loss`, and tests compare the fused loss with `cross_entropy`.
"""

from typing import NamedTuple

from torch.nn import functional

from regard.data.batching import Batch
from regard.models.protocol import Encoded
from regard.models.seq2seq import Seq2Seq
from regard.shapes import Float, Int, Tensor


class LossSums(NamedTuple):
    """Sums over tokens, so that batches of different sizes add up; divide by the number of tokens at the end."""

    total: Float[Tensor, ""]
    """What is made small: the smoothed cross-entropy."""
    nll: Float[Tensor, ""]
    """The plain negative log-likelihood, detached: perplexity is made of it."""


def cross_entropy(logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], smoothing: float) -> LossSums:
    r"""Sum the cross-entropy with smoothed labels (Szegedy et al. 2016, section 7).

    .. math:: q'(k) = (1 - \epsilon)\, \delta_{k, y} + \epsilon / W

    The mass `smoothing` is spread evenly over the whole vocabulary, the right word included, as in the paper and in
    torch. Half precision is normalised in float32.
    """
    if smoothing == 0:
        total = functional.cross_entropy(logits.float(), targets, reduction="sum")
        return LossSums(total, total.detach())
    log_probs = functional.log_softmax(logits.float(), dim=-1)
    nll = functional.nll_loss(log_probs, targets, reduction="sum")
    uniform = -log_probs.sum() / logits.shape[-1]
    return LossSums((1 - smoothing) * nll + smoothing * uniform, nll.detach())


def encode_batch(model: Seq2Seq, batch: Batch) -> Encoded:
    """Let a model read the sources of a batch, each once; what it has read is there for every target."""
    encoded = model.encode(batch.source, batch.source_mask, batch.lengths)
    if batch.each == 1:
        return encoded
    parts = {name: part for name, part in encoded._asdict().items() if part is not None}
    return encoded._replace(**{name: part.repeat_interleave(batch.each, dim=0) for name, part in parts.items()})


def batch_loss(model: Seq2Seq, batch: Batch, smoothing: float = 0.0) -> LossSums:
    """Run a model over a batch; the output layer, its dearest part, never sees padding."""
    encoded = encode_batch(model, batch)
    taught = model.decoder.teach(batch.tokens_in, encoded, look=False)
    logits = model.decoder.logits(taught, batch.target_mask)
    return cross_entropy(logits, batch.tokens_out[batch.target_mask], smoothing)
