"""Decoders small enough to know everything about: what they say depends on the whole prefix and on nothing else."""

from typing import NamedTuple

import torch

from regard.masks import from_lengths, masked_softmax
from regard.models.protocol import Decoder, Encoded, Step

BOS, EOS = 2, 3
STATES = 9973


class Prefix(NamedTuple):
    """A fingerprint of the sentence and all tokens read so far, and what may be looked at."""

    mark: torch.Tensor
    mask: torch.Tensor


class Oracle(Decoder[Prefix]):
    """Looks its logits and weights up in random tables, at the fingerprint of the prefix.

    Any two prefixes have different weights, so attention that is handed to the wrong hypothesis does not go unnoticed.
    """

    def __init__(self, size: int, seed: int = 0, layers: int = 2, heads: int = 3, sharpness: float = 1.0):
        super().__init__()
        chance = torch.Generator().manual_seed(seed)
        self.size, self.layers, self.heads = size, layers, heads
        self.logits = torch.randn(STATES, size, generator=chance) * sharpness
        self.scores = torch.randn(STATES, max(layers, 1), heads, 32, generator=chance)[:, :layers]
        self.rows = []
        self.known = {}

    def start(self, encoded: Encoded) -> Prefix:
        return Prefix(encoded.states[:, 0, 0].long() % STATES, encoded.mask)

    def step(self, token, state: Prefix, look=True) -> Step[Prefix]:
        self.rows.append(len(token))
        mark = (state.mark * 1009 + token * 101 + 7) % STATES
        scores = self.scores[mark][..., : state.mask.shape[1]]
        weights = masked_softmax(scores, state.mask[:, None, None].expand_as(scores))
        return Step(self.logits[mark], Prefix(mark, state.mask), weights)

    def reorder(self, state: Prefix, rows) -> Prefix:
        return Prefix(state.mark[rows], state.mask[rows])

    def teach(self, tokens, encoded):
        raise NotImplementedError

    def project(self, features):
        raise NotImplementedError


def sentences(lengths, first=11, padding=0) -> Encoded:
    """Sources of the given lengths, each with a number of its own."""
    mask = from_lengths(torch.tensor(lengths), max(lengths) + padding)
    states = torch.zeros(*mask.shape, 5)
    states[:, 0, 0] = torch.arange(first, first + len(lengths))
    return Encoded(states, mask, torch.zeros(len(lengths), 1, 5))


def pick(encoded: Encoded, rows) -> Encoded:
    """Some of the sentences."""
    return Encoded(encoded.states[rows], encoded.mask[rows], encoded.summary[rows])


def only(encoded: Encoded, number: int) -> Encoded:
    """One sentence by itself, without padding."""
    real = encoded.mask[number]
    return Encoded(encoded.states[number, real][None], real[real][None], encoded.summary[number][None])


def reread(decoder, encoded: Encoded, tokens):
    """Step one sentence through given tokens; return each token's log-probability, all of them, and the weights."""
    steps = [_after(decoder, encoded, tuple(tokens[:t])) for t in range(len(tokens))]
    every = [step.logits[0].float().log_softmax(-1) for step in steps]
    log_probs = [float(row[token]) for row, token in zip(every, tokens, strict=True)]
    return log_probs, every, torch.stack([step.weights[0].float() for step in steps])


def _after(decoder, encoded: Encoded, tokens) -> Step:
    """The step that follows the given tokens; what was asked before is known."""
    key = (int(encoded.states[0, 0, 0]), len(encoded.mask[0]), tokens)
    if key not in decoder.known:
        state = _after(decoder, encoded, tokens[:-1]).state if tokens else decoder.start(encoded)
        decoder.known[key] = decoder.step(torch.tensor([tokens[-1] if tokens else BOS]), state)
    return decoder.known[key]
