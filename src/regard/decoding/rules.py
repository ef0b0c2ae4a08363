"""What may be written where: banned tokens, prefixes, the shortest and the longest length."""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from regard.config import DecodingConfig
from regard.decoding.methods import Request
from regard.errors import ConfigError
from regard.shapes import Bool, Float, Int, Tensor

NEVER = float("-inf")

SPARE = 10
"""Tokens that are allowed beyond what `decoding.max_ratio` gives: short texts vary more."""


@dataclass
class Rules:
    """What may be written where."""

    options: DecodingConfig
    eos: int
    banned: frozenset[int]
    forced: Int[Tensor, "B P"]
    """The tokens each sentence must start with, then -1."""
    limits: Int[Tensor, " B"]
    """The most tokens of each sentence, the end mark counted."""
    allowed: Bool[Tensor, " W"] | None = None
    """Which tokens are not banned; the first step shows how many there are."""

    @classmethod
    def make(cls, real: Bool[Tensor, "B S"], options: DecodingConfig, request: Request, copies: int = 1) -> "Rules":
        """Check the prefixes and find every sentence's longest length; all of it `copies` times in a row."""
        prefix = [()] * len(real) if request.prefix is None else request.prefix
        if len(prefix) != len(real):
            raise ConfigError(f"There are {len(real)} sentences but {len(prefix)} prefixes: give one for each.")
        if any(request.eos in tokens for tokens in prefix):
            raise ConfigError("A prefix holds the end mark; leave it out, so that there is something to search.")
        longest = max(map(len, prefix), default=0)
        if 0 < options.max_length < longest:
            raise ConfigError(
                f"A prefix has {longest} tokens but decoding.max_length is {options.max_length}: "
                f"set it to {longest} or more."
            )
        padded = [[*tokens, *[-1] * (longest - len(tokens))] for tokens in prefix]
        forced = torch.tensor(padded, dtype=torch.long, device=real.device).view(len(real), longest)
        limits = [
            min(_limit(options, request.longest, source, tokens), request.most or sys.maxsize)
            for source, tokens in zip(real.sum(dim=1).tolist(), prefix, strict=True)
        ]
        every = (forced, torch.tensor(limits, device=real.device))
        return cls(options, request.eos, frozenset(request.banned), *(t.repeat_interleave(copies, 0) for t in every))

    def _not_banned(self, size: int) -> Bool[Tensor, " W"]:
        if self.forced.numel() and int(self.forced.max()) >= size:
            raise ConfigError(f"A prefix holds token {int(self.forced.max())}, but the vocabulary has only {size}.")
        if set(range(size)) <= self.banned | ({self.eos} if self.options.min_length else set()):
            raise ConfigError(f"All {size} tokens of the vocabulary are banned, so nothing can be written.")
        return torch.tensor([token not in self.banned for token in range(size)], device=self.forced.device)

    def apply(
        self, log_probs: Float[Tensor, "B N W"], length: int, sentences: Int[Tensor, " B"]
    ) -> Float[Tensor, "B N W"]:
        """Make what may not be written as token number `length` impossible; the rest keeps its probability."""
        if self.allowed is None:
            self.allowed = self._not_banned(log_probs.shape[-1])
        allowed = self.allowed
        if length <= self.options.min_length:
            allowed = allowed.clone()
            allowed[self.eos] = False
        if length <= self.forced.shape[1]:
            forced = self.forced[sentences, length - 1, None]
            asked = torch.arange(len(allowed), device=forced.device) == forced
            allowed = torch.where(forced < 0, allowed, asked)[:, None]
        return log_probs.masked_fill(~allowed, NEVER)


def _limit(options: DecodingConfig, longest: int, source: int, prefix: Sequence[int]) -> int:
    """Return the most tokens of one sentence, the end mark counted."""
    usual = longest or math.ceil(options.max_ratio * source) + SPARE
    return options.max_length or max(usual, len(prefix) + SPARE, options.min_length + 1)
