"""Attention = score × reach × focus: the three parts, what they yield, and their composition.

weights = focus(score(query, memory.keys) restricted to reach),  context = weights @ memory.values
"""

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import nn

from regard.registry import Registry
from regard.shapes import Bool, Float, Tensor


class Memory(NamedTuple):
    """What can be looked at: made once per sentence by `Attention.remember`, read at every step."""

    keys: Float[Tensor, "B S K"]
    values: Float[Tensor, "B S V"]
    mask: Bool[Tensor, "B S"]


class Attended(NamedTuple):
    """What a look yields."""

    context: Float[Tensor, "B T V"]
    weights: Float[Tensor, "B T S"]


class Score(nn.Module, ABC):
    """How well a query fits a key."""

    def __init__(self, query_width: int, state_width: int, width: int) -> None:
        """`width` is the hidden width of scores that have one; the others ignore it."""
        super().__init__()

    @abstractmethod
    def keys(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S K"]:
        """Compute whatever does not depend on the query: done once per sentence."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "B T Q"], keys: Float[Tensor, "B S K"]) -> Float[Tensor, "B T S"]:
        """Score every key for every query."""


class Reach(nn.Module, ABC):
    """Which keys may be looked at."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: int) -> Bool[Tensor, "B #T S"]:
        """Return what each query may look at; `first` is the position of the first query in its sequence."""


class Focus(nn.Module, ABC):
    """How scores become weights: non-negative, zero where not allowed, of sum one where anything is allowed."""

    @abstractmethod
    def forward(self, scores: Float[Tensor, "B T S"], allowed: Bool[Tensor, "B #T S"]) -> Float[Tensor, "B T S"]:
        """Turn each row of scores into weights."""


scores: Registry[type[Score]] = Registry("attention score", "scores")
reaches: Registry[type[Reach]] = Registry("attention reach", "reaches")
focuses: Registry[type[Focus]] = Registry("attention focus", "focuses")


class Attention(nn.Module):
    """A weighted sum of the memory's values that depends on a query. Keeps no state between calls."""

    def __init__(self, score: Score, reach: Reach, focus: Focus) -> None:
        super().__init__()
        self.score = score
        self.reach = reach
        self.focus = focus

    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"]) -> Memory:
        """Project the keys, once; the states themselves are the values.

        Padding is erased rather than trusted: a weight of zero on a state that is not finite would still be NaN.
        """
        real = states.masked_fill(~mask[..., None], 0.0)
        return Memory(self.score.keys(real), real, mask)

    def forward(self, query: Float[Tensor, "B T Q"], memory: Memory, first: int = 0) -> Attended:
        """Look at the memory with every query; the first of them stands at position `first` of its sequence."""
        allowed = self.reach(query, memory.mask, first)
        weights = self.focus(self.score(query, memory.keys), allowed)
        return Attended(torch.bmm(weights, memory.values), weights)
