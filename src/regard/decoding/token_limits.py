"""Constraints on tokens: banned tokens, prefixes, minimum and maximum lengths."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.decoding.search_methods import DecodingRequest
from regard.errors import ConfigError
from regard.shapes import Bool, Float, Int, Tensor

NEVER = float("-inf")

SPARE = 10
"""Tokens allowed beyond `decoding.max_ratio` times the source length: short texts vary more."""


@dataclass
class Rules:
    """The constraints on each position."""

    options: DecodingConfig
    eos: int
    banned: frozenset[int]
    forced: Int[Tensor, "B P"]
    """The tokens that each sentence must start with, then -1."""
    limits: Int[Tensor, " B"]
    """Maximum length of each sentence, the end token included."""
    words: Sequence[NDArray[np.int32]] | None = None
    """The only tokens allowed for each sentence; None for all."""
    copies: int = 1
    """How many times each sentence is searched."""
    allowed: Bool[Tensor, " W"] | None = None
    """Which tokens are not banned; set at the first step, which shows the vocabulary size."""
    listed: Bool[Tensor, "B W"] | None = None
    """`words` as a boolean table."""

    @classmethod
    def make(
        cls, real: Bool[Tensor, "B S"], options: DecodingConfig, request: DecodingRequest, copies: int = 1
    ) -> "Rules":
        """Check the prefixes and compute every sentence's maximum length, each `copies` times in a row."""
        prefix = [()] * len(real) if request.prefix is None else request.prefix
        if len(prefix) != len(real):
            raise ConfigError(f"There are {len(real)} sentences but {len(prefix)} prefixes: give one for each.")
        if any(request.eos in tokens for tokens in prefix):
            raise ConfigError("A prefix contains the end token; leave it out, so that there is something to search.")
        longest = max(map(len, prefix), default=0)
        if 0 < options.max_length < longest:
            raise ConfigError(
                f"A prefix has {longest} tokens but decoding.max_length is {options.max_length}: "
                f"set it to {longest} or more."
            )
        if request.most is not None and request.most < longest:
            raise ConfigError(
                f"A prefix, or a text to be continued, has {longest} tokens but the model has only "
                f"{request.most} positions: shorten it to {request.most} tokens or fewer."
            )
        _check_room(options, request, prefix)
        padded = [[*tokens, *[-1] * (longest - len(tokens))] for tokens in prefix]
        forced = torch.tensor(padded, dtype=torch.long, device=real.device).view(len(real), longest)
        most = [
            min(limit(options, request.longest, source, tokens) + more, request.most or sys.maxsize)
            for source, tokens, more in zip(
                real.sum(dim=1).tolist(), prefix, _more(options, request, len(real)), strict=True
            )
        ]
        every = (forced, torch.tensor(most, device=real.device))
        forced, limits = (t.repeat_interleave(copies, 0) for t in every)
        return cls(options, request.eos, frozenset(request.banned), forced, limits, request.words, copies)

    def not_banned(self, size: int) -> Bool[Tensor, " W"]:
        """Return which tokens are allowed; raise a ConfigError if none are, or if a prefix has an unknown token."""
        if self.forced.numel() and int(self.forced.max()) >= size:
            raise ConfigError(
                f"A prefix has token {int(self.forced.max())}, but the vocabulary has only {size} tokens."
            )
        allowed = torch.ones(size, dtype=torch.bool)
        allowed[[token for token in self.banned if 0 <= token < size]] = False
        first = allowed.clone()
        if self.options.min_length:
            first[self.eos] = False
        if not first.any():
            raise ConfigError(f"All {size} tokens of the vocabulary are banned, so nothing can be generated.")
        return allowed.to(self.forced.device)

    def shorten(self, logits: Float[Tensor, "B N W"], sentences: Int[Tensor, " B"]) -> Float[Tensor, "B N W"]:
        """Mask the logits of all words that are not in the sentence's shortlist, if it has one."""
        if self.words is None:
            return logits
        if self.listed is None:
            listed = torch.zeros(len(self.words), logits.shape[-1], dtype=torch.bool)
            for row, words in zip(listed, self.words, strict=True):
                row[torch.from_numpy(words).long()] = True
            self.listed = listed.to(logits.device).repeat_interleave(self.copies, 0)
        return logits.masked_fill(~self.listed[sentences][:, None], NEVER)

    def apply(
        self, log_probs: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N W"]:
        """Set forbidden tokens at position `length` to -inf; the others keep their log-probability."""
        if self.allowed is None:
            self.allowed = self.not_banned(log_probs.shape[-1])
        allowed = self.allowed
        if length <= self.options.min_length:
            allowed = allowed.clone()
            allowed[self.eos] = False
        if length <= self.forced.shape[1]:
            forced = self.forced[sentences, length - 1, None]
            asked = torch.arange(len(allowed), device=forced.device) == forced
            allowed = torch.where(forced < 0, allowed, asked)[:, None]
        return log_probs.masked_fill(~allowed, NEVER)


def limit(options: DecodingConfig, longest: int, source: int, prefix: Sequence[int]) -> int:
    """Return the maximum length of one sentence, the end token included."""
    usual = longest or math.ceil(options.max_ratio * source) + SPARE
    return options.max_length or max(usual, len(prefix) + SPARE, options.min_length + 1)


def _more(options: DecodingConfig, request: DecodingRequest, count: int) -> Sequence[int]:
    """Return the extra length that each sentence gets for the terms it must contain."""
    if request.constraints is None or options.max_length:
        return [0] * count
    return [own.total for own in request.constraints]


def _check_room(options: DecodingConfig, request: DecodingRequest, prefix: Sequence[Sequence[int]]) -> None:
    """Raise a ConfigError if the terms take more tokens than are allowed."""
    for own, tokens in zip(request.constraints or (), prefix, strict=False):
        needed = len(tokens) + own.total + 1 if own.total else 0
        terms = ", ".join(repr(term.text) for term in own.terms)
        after = f" after a prefix of {len(tokens)}" if tokens else ""
        takes = f"What must occur in a translation ({terms}) takes {own.total + 1} tokens with the end token{after}"
        if 0 < options.max_length < needed:
            raise ConfigError(f"{takes}, but decoding.max_length is {options.max_length}: set it to {needed} or more.")
        if request.most is not None and request.most < needed:
            raise ConfigError(f"{takes}, but the model has only {request.most} positions: translate the text in parts.")
