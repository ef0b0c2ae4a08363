r"""Posterior attention: where a token came from, given that it is known.

.. math:: p(s | y_t) = \frac{a_{ts}\, p(y_t | s)}{\sum_{s'} a_{ts'}\, p(y_t | s')}

`a_t` are the attention weights of the step that generates `y_t`, computed before the token is known, and `p(y_t | s)`
is the probability of the token if the decoder attends to position `s` alone at this step, after attending as usual at
all earlier steps. It is Bayes' rule with the attention as prior (Shankar & Sarawagi 2019).
Differs from the paper: models are trained as usual, with attention to all positions; only this analysis differs.
"""

from collections.abc import Sequence
from typing import Any

import torch

from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS
from regard.decoding.ensemble import EnsembleDecoder
from regard.errors import ModelError
from regard.models.protocol import Decoder, Encoded, leaves
from regard.shapes import Bool, Float, Int, Tensor

NUMBERS = 1 << 25
"""Maximum number of logits and state elements in memory at a time: one step per source position needs many."""


def explain(
    decoder: Decoder[Any], encoded: Encoded, targets: Sequence[Sequence[int]]
) -> list[tuple[list[float], Tensor]]:
    """Run a decoder over given tokens, a row for each source; return log-probabilities and posterior attention.

    The latter is T×L×H×S, on the host, for each layer and head as if it were the only prior.
    """
    tokens, real = (part.to(encoded.states.device) for part in pad_sources(targets))
    if decoder.most is not None and tokens.shape[1] > decoder.most:
        raise ModelError(f"A target has {tokens.shape[1]} tokens, but the model has only {decoder.most} positions.")
    state, before = decoder.start(encoded), torch.full_like(tokens[:, 0], BOS)
    chosen, looks = [], []
    for written, counts in zip(tokens.unbind(dim=1), real.unbind(dim=1), strict=True):
        step = decoder.step(before, state)
        assert step.weights is not None
        chosen.append(_log_probs(step.logits, written))
        told = _position_log_probs(
            decoder, state, before, written, _attended(step.weights, encoded.mask, counts), step.logits
        )
        looks.append(bayes(step.weights.float(), told))
        state, before = step.state, written
    log_probs, weights = torch.stack(chosen, dim=1).cpu(), torch.stack(looks, dim=1).cpu()
    return [(log_probs[row, : len(target)].tolist(), weights[row, : len(target)]) for row, target in enumerate(targets)]


def bayes(weights: Float[Tensor, "B L H S"], told: Float[Tensor, "B S"]) -> Float[Tensor, "B L H S"]:
    """Multiply weights by likelihoods given as logs (-inf for zero), and normalise; an all-zero row stays zero."""
    both = weights.log() + told[:, None, None]
    return torch.softmax(both, dim=-1).masked_fill(both.amax(dim=-1, keepdim=True) == -torch.inf, 0.0)


def _attended(
    weights: Float[Tensor, "B L H S"], mask: Bool[Tensor, "B S"], counts: Bool[Tensor, " B"]
) -> Bool[Tensor, "B S"]:
    """Return the positions with weight in any layer and head, of targets that have not ended."""
    return mask & counts[:, None] & (weights > 0).flatten(1, 2).any(dim=1)


def _position_log_probs(
    decoder: Decoder[Any],
    state: Any,
    before: Int[Tensor, " B"],
    written: Int[Tensor, " B"],
    asked: Bool[Tensor, "B S"],
    logits: Float[Tensor, "B W"],
) -> Float[Tensor, "B S"]:
    """Return the token's log-probability given each position in `asked`; -inf for the others."""
    told = logits.new_full(asked.shape, -torch.inf, dtype=torch.float32)
    every = asked.nonzero()
    if not len(every):
        return told
    members = len(decoder.members) if isinstance(decoder, EnsembleDecoder) else 1
    one = decoder.alone(state, *every[:1].unbind(dim=1))
    size = members * logits.shape[1] + sum(leaf.numel() for leaf in leaves(one))
    for rows, places in (some.unbind(dim=1) for some in torch.split(every, max(1, NUMBERS // size))):
        step = decoder.step(before[rows], decoder.alone(state, rows, places), look=False)
        told[rows, places] = _log_probs(step.logits, written[rows])
    return told


def _log_probs(logits: Float[Tensor, "N W"], tokens: Int[Tensor, " N"]) -> Float[Tensor, " N"]:
    logits = logits.float()
    return logits.gather(1, tokens[:, None])[:, 0] - logits.logsumexp(dim=1)
