"""Attention = score × reach × focus: the contracts of the parts, and what passes between them.

weights = focus(score(query, memory.keys) restricted to reach),  context = weights @ memory.values

Inside the parts every tensor has an axis of heads, H for queries and G for keys (G divides H; a mechanism with one head
has H = G = 1). Parts keep no state: what one look leaves for the next is in the `Carry` that the caller hands on.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import nn

from regard.registry import Registry
from regard.shapes import Bool, Float, Int, Place, Tensor


class Memory(NamedTuple):
    """What can be looked at: made once per sentence by `Attention.remember`, read at every step."""

    keys: Float[Tensor, "B G S K"]
    values: Float[Tensor, "B G S V"]
    mask: Bool[Tensor, "B S"]
    fertility: Float[Tensor, "B S"] | None = None
    """How often each position may be looked at, where the coverage learns that (Tu et al. 2016)."""

    def extended(self, new: "Memory") -> "Memory":
        """Return this memory with a new one behind it: what a sequence that looks at itself adds at each step."""
        return Memory(
            torch.cat([self.keys, new.keys], dim=2),
            torch.cat([self.values, new.values], dim=2),
            torch.cat([self.mask, new.mask], dim=1),
        )


class Carry(NamedTuple):
    """What a look leaves for the next one of the same sequence."""

    position: Place = 0
    """Where the next query stands in its sequence."""
    last: Float[Tensor, "B H S"] | None = None
    """The weights of the last look, or the place where it ended; kept for a focus that goes on from there."""
    covered: Float[Tensor, "B H S"] | None = None
    """The sum of the weights of all looks; kept for coverage."""


class Extras(NamedTuple):
    """What a look tells the loss beside its context, summed over heads and layers; None where it tells nothing."""

    log_prob: Float[Tensor, "B T"] | None = None
    """Log-probability of what was sampled (hard attention)."""
    entropy: Float[Tensor, "B T"] | None = None
    """Entropy of what it was sampled from (hard attention)."""
    overlap: Float[Tensor, "B T"] | None = None
    """How much of the look went where earlier looks had gone (coverage)."""


class Attended(NamedTuple):
    """What a look yields."""

    context: Float[Tensor, "B T V"]
    weights: Float[Tensor, "B T H S"] | None
    """None where they were not asked for and need not exist. Where hard attention drew, what it drew from: a loss of
    weights then has a gradient, and the context is that of the draw all the same."""
    carry: Carry
    extras: Extras = Extras()


class Sizes(NamedTuple):
    """What a part is built for."""

    query: int
    """Width of a query, of one head."""
    key: int
    """Width of a state that keys are made of, of one head."""
    heads: int = 1
    groups: int = 1
    """Heads of keys and values; each serves heads / groups heads of queries."""
    hidden: int = 256
    """Units of the hidden layer of scores that have one."""
    window: int = 10
    """How far a local reach sees, to each side."""
    stride: int = 4
    """Distance between what a dilated or strided reach sees."""
    longest: int = 512
    """Most positions that a part with something learned for each of them can handle."""
    raw_query: int = 0
    """Width of a query before it is split into heads (reaches that predict where to look read that)."""
    causal: bool = False
    """Whether only the past of the same sequence may be looked at."""
    raw_state: int = 0
    """Width of a state before keys are made of it (a learned fertility reads that)."""
    soft_chance: float = 0.5
    soft_first: int = 0
    """How often hard attention is soft in training."""


class Score(nn.Module, ABC):
    """How well a query fits a key."""

    dotted: ClassVar[bool] = False
    """Whether it is an inner product of query and key, so that turning both by their positions has a meaning."""
    of_itself: ClassVar[bool] = True
    """Whether it has a meaning where a sequence looks at itself."""
    reads_states: ClassVar[bool] = True
    """Whether its keys depend on the states, and not on their places alone."""
    whole_windows: ClassVar[int] = 3
    """Up to so many windows of a local reach, a source is scored whole in less time than keys are picked from it."""
    key_width: int
    """Width of the keys it makes."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """Compute whatever does not depend on the query: done once per sentence."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """Score every key for every query; keys are those that `keys` made, repeated where groups are fewer."""


class Blocks(NamedTuple):
    """Queries cut into M blocks of T, and for each block the N keys that any of its queries may look at.

    All are of one size, so that they are one batch of matrix products: an index that is out of range fills up a block.
    """

    queries: Int[Tensor, "M T"]
    """Counted from the first of the queries at hand."""
    keys: Int[Tensor, "M N"]
    """By position."""
    slots: Int[Tensor, " Q"]
    """Where each query is found among the blocks, laid one after the other."""


class Reach(nn.Module):
    """Which keys may be looked at, by position alone: the queries are those of positions `first` and on.

    A reach that is short says so by `blocks`: whatever a block leaves out is never computed.
    """

    of_itself: ClassVar[bool] = True
    """Whether it has a meaning where a sequence looks at itself."""
    of_another: ClassVar[bool] = False
    """Whether it has a meaning where a sequence looks at another one."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.causal = sizes.causal

    @property
    def sees_all(self) -> bool:
        """Whether every query may look at every key, so that positions need not be asked."""
        return not self.causal and type(self).allowed is Reach.allowed

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Cut `steps` queries into blocks, given `size` keys; nothing, if every query looks at nearly every key.

        Where there are several cuts, each holds every query, which looks at the keys of its blocks in all of them.
        """
        return ()

    def allowed(
        self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0
    ) -> Bool[Tensor, "T N"] | None:
        """Say which of these positions may look at which; None if all may look at all.

        Where there are several cuts, a pair is allowed in one of them.
        """
        return keys <= queries[:, None] if self.causal else None

    def allowed_in_all(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"]) -> Bool[Tensor, "T N"] | None:
        """Say which of these positions may look at which, in any of the cuts."""
        return self.allowed(queries, keys)


class Window(NamedTuple):
    """The keys around a centre, for each query its own."""

    positions: Int[Tensor, "B T N"]
    """Which keys: places that there are, none of them twice, though not all need be allowed."""
    allowed: Bool[Tensor, "B T N"]
    factor: Float[Tensor, "B T N"] | None = None
    """What the weights are multiplied by, once they are normalised."""
    whole: bool = False
    """Whether these are all places of the source, in their order, for every query."""


class LocalReach(Reach):
    """A reach whose window goes by the content: the centre may depend on the query and on the source's length."""

    of_itself = False
    of_another = True

    @abstractmethod
    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place, most: int) -> Window:
        """Find the window of each query; the query is the whole one, before it is split into heads.

        Of a source that is no longer than `most` windows it is all.
        """


class Focused(NamedTuple):
    """What a focus makes of scores."""

    weights: Float[Tensor, "B H T S"]
    log_prob: Float[Tensor, "B H T"] | None = None
    entropy: Float[Tensor, "B H T"] | None = None
    place: Float[Tensor, "B H T S"] | None = None
    """Where the next look goes on from, where that is not the weights (monotonic)."""
    chances: Float[Tensor, "B H T S"] | None = None
    """What weights were drawn from, where they were (hard attention in training)."""


class Focus(nn.Module, ABC):
    """How scores become weights: non-negative, zero where not allowed, of sum one where anything is allowed.

    Monotonic alone may find nothing though something is allowed: its weights sum to at most one.
    """

    goes_on: ClassVar[bool] = False
    """Whether it needs the weights of the look before: queries are then taken one after the other."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Turn each row of scores into weights; `last` is given to a focus that goes on from it."""


class Coverage(nn.Module, ABC):
    """How a look knows what earlier looks have seen."""

    def __init__(self, sizes: Sizes, key_width: int) -> None:
        """`key_width` is that of the keys that a score makes."""
        super().__init__()

    def fertility(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"] | None:
        """Say how often each state may be looked at, where that is learned."""
        return None

    @abstractmethod
    def forward(
        self, keys: Float[Tensor, "B H S K"], covered: Float[Tensor, "B H S"], fertility: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B H S K"]:
        """Let the keys tell how much they were looked at."""


scores: Registry[type[Score]] = Registry("attention score", "scores")
reaches: Registry[type[Reach]] = Registry("attention reach", "reaches")
focuses: Registry[type[Focus]] = Registry("attention focus", "focuses")
coverages: Registry[type[Coverage]] = Registry("coverage", "coverages")
