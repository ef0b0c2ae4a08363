"""Teacher forcing for inference: a decoder over given tokens."""

from collections.abc import Sequence
from typing import Any

import torch

from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Int, Tensor


def force(
    decoder: Decoder[Any], encoded: Encoded, targets: Sequence[Sequence[int]], look: bool
) -> list[tuple[list[float], Tensor]]:
    """Teacher-force a decoder, a row for each source; return log-probabilities and, with `look`, weights.

    Weights are T×L×H×S, on the host: step t generates token t.
    """
    tokens, real = (part.to(encoded.states.device) for part in pad_sources(targets))
    taught = decoder.teach(shifted(tokens), encoded, look)
    # Leave padding out of the widest matrix product, the one over the vocabulary.
    every = decoder.logits(taught, real).float().log_softmax(dim=-1)
    chosen = every.gather(1, tokens[real][:, None])[:, 0].cpu()
    weights = torch.zeros(len(targets), 0) if taught.weights is None else taught.weights.float().cpu()
    log_probs = torch.split(chosen, [len(target) for target in targets])
    return [
        (own.tolist(), looks[: len(target)] if look else looks)
        for target, own, looks in zip(targets, log_probs, weights, strict=True)
    ]


def shifted(tokens: Int[Tensor, "B T"]) -> Int[Tensor, "B T"]:
    """Shift targets right: the start token first, without the last token."""
    return torch.cat([torch.full_like(tokens[:, :1], BOS), tokens[:, :-1]], dim=1)
