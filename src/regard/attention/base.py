"""Attention = score × reach × focus: the interfaces of the parts, and the data that passes between them.

weights = focus(score(query, memory.keys) restricted to reach),  context = weights @ memory.values

Inside the parts every tensor has a head axis, H for queries and G for keys (G divides H; a mechanism with one head has
H = G = 1). Parts hold no state: what one step leaves for the next is in the `Carry` that the caller passes on.
"""

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import torch
from torch import nn

from regard.registry import Registry
from regard.shapes import Bool, Float, Int, Place, Tensor


class Memory(NamedTuple):
    """Keys, values and mask: computed once per sentence by `Attention.remember`, read at every step."""

    keys: Float[Tensor, "B G S K"]
    values: Float[Tensor, "B G S V"]
    mask: Bool[Tensor, "B S"]
    fertility: Float[Tensor, "B S"] | None = None
    """How much attention each position may get in all, where the coverage learns that (Tu et al. 2016)."""

    def extended(self, new: "Memory") -> "Memory":
        """Return this memory with another one appended, as self-attention does at each decoding step."""
        return Memory(
            torch.cat([self.keys, new.keys], dim=2),
            torch.cat([self.values, new.values], dim=2),
            torch.cat([self.mask, new.mask], dim=1),
        )


class Carry(NamedTuple):
    """What one attention step leaves for the next one of the same sequence."""

    position: Place = 0
    """Position of the next query in its sequence."""
    last: Float[Tensor, "B H S"] | None = None
    """The last step's weights, or the position where it stopped; for a focus that continues from there."""
    covered: Float[Tensor, "B H S"] | None = None
    """The sum of the weights of all steps so far; for coverage."""


class Extras(NamedTuple):
    """Terms that attention contributes to the loss, summed over heads and layers; None where there is no such term."""

    log_prob: Float[Tensor, "B T"] | None = None
    """Log-probability of the sampled positions (hard attention)."""
    entropy: Float[Tensor, "B T"] | None = None
    """Entropy of the distribution they were sampled from (hard attention)."""
    overlap: Float[Tensor, "B T"] | None = None
    """Overlap of this step's weights with the sum of earlier ones (the coverage loss)."""


class Attended(NamedTuple):
    """Result of an attention call."""

    context: Float[Tensor, "B T V"]
    weights: Float[Tensor, "B T H S"] | None
    """None if they were not requested and not needed. Where hard attention sampled, the distribution that it sampled
    from, so that a loss on weights has a gradient; the context is still that of the sample."""
    carry: Carry
    extras: Extras = Extras()


class Sizes(NamedTuple):
    """Widths and options that a part is built with."""

    query: int
    """Query width per head."""
    key: int
    """Width per head of the states that keys are computed from."""
    heads: int = 1
    groups: int = 1
    """Number of key and value heads; each serves `heads / groups` query heads."""
    hidden: int = 256
    """Hidden units, for scores with a hidden layer."""
    window: int = 10
    """Width of a local reach, to each side."""
    stride: int = 4
    """Distance between the positions of a dilated or strided reach."""
    longest: int = 512
    """Maximum number of positions, for parts that learn something for each position."""
    raw_query: int = 0
    """Query width before the split into heads (used by reaches that predict their centre)."""
    causal: bool = False
    """Whether only the current and earlier positions of the same sequence may be attended to."""
    raw_state: int = 0
    """State width before the key projection (used by a learned fertility)."""
    soft_chance: float = 0.5
    soft_first: int = 0
    """Hard attention in training: the probability of a soft step, and the number of soft steps at the start."""


class Score(nn.Module, ABC):
    """How well a query fits a key."""

    dotted: ClassVar[bool] = False
    """Whether it is an inner product of query and key; rotary and relative positions need one."""
    of_itself: ClassVar[bool] = True
    """Whether it can be used in self-attention."""
    reads_states: ClassVar[bool] = True
    """Whether its keys depend on the states, and not on their positions alone."""
    whole_windows: ClassVar[int] = 3
    """Sources of up to this many local windows are scored in full: faster than gathering keys for each query."""
    key_width: int
    """Width of the keys that it computes."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S K"]:
        """Compute whatever does not depend on the query, once per sentence."""

    @abstractmethod
    def forward(self, query: Float[Tensor, "B H T Q"], keys: Float[Tensor, "B H S K"]) -> Float[Tensor, "B H T S"]:
        """Score every key for every query; `keys` are those of the method, repeated if groups are fewer than heads."""


class Blocks(NamedTuple):
    """Queries cut into M blocks of T, and for each block the N keys that any of its queries may attend to.

    All blocks have one size, so that they form one batched matrix product; out-of-range indices pad a block.
    """

    queries: Int[Tensor, "M T"]
    """Index into the queries of this call."""
    keys: Int[Tensor, "M N"]
    """Key positions."""
    slots: Int[Tensor, " Q"]
    """Index of each query among the queries of all blocks, concatenated."""


class Reach(nn.Module):
    """Which keys a query may attend to, by position alone. `first` is the position of the first query of a call.

    A sparse reach also implements `blocks`, so that pairs outside all blocks are never computed.
    """

    of_itself: ClassVar[bool] = True
    """Whether it can be used in self-attention."""
    of_another: ClassVar[bool] = False
    """Whether it can be used where a decoder attends to another sequence."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.causal = sizes.causal

    @property
    def sees_all(self) -> bool:
        """Whether every query may attend to every key, so that no mask over positions is needed."""
        return not self.causal and type(self).allowed is Reach.allowed

    def blocks(self, first: int, steps: int, size: int, device: torch.device) -> tuple[Blocks, ...]:
        """Cut `steps` queries into blocks, given `size` keys; empty if every query attends to nearly every key.

        If there are several cuts, every query is in each of them and attends to the keys of its blocks in all of them.
        """
        return ()

    def allowed(
        self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"], cut: int = 0
    ) -> Bool[Tensor, "T N"] | None:
        """Return the mask of allowed pairs of these positions; None if all are allowed.

        If there are several cuts, each pair is allowed in exactly one of them.
        """
        return keys <= queries[:, None] if self.causal else None

    def allowed_in_all(self, queries: Int[Tensor, " T"], keys: Int[Tensor, "#T N"]) -> Bool[Tensor, "T N"] | None:
        """Return the mask of the pairs that any of the cuts allows."""
        return self.allowed(queries, keys)


class Window(NamedTuple):
    """The keys around a centre, separately for each query."""

    positions: Int[Tensor, "B T N"]
    """Key positions: all exist and are distinct, though some may not be allowed."""
    allowed: Bool[Tensor, "B T N"]
    factor: Float[Tensor, "B T N"] | None = None
    """Factor on the normalised weights."""
    whole: bool = False
    """Whether the positions are those of the whole source, in order, for every query."""


class LocalReach(Reach):
    """A window whose centre may depend on the query and on the source's length."""

    of_itself = False
    of_another = True

    @abstractmethod
    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place, most: int) -> Window:
        """Return the window of each query. The query has its full width, before the split into heads.

        A source of at most `most` windows is returned whole.
        """


class Focused(NamedTuple):
    """Result of a focus."""

    weights: Float[Tensor, "B H T S"]
    log_prob: Float[Tensor, "B H T"] | None = None
    entropy: Float[Tensor, "B H T"] | None = None
    place: Float[Tensor, "B H T S"] | None = None
    """The position that the next step continues from, where that is not given by the weights (monotonic)."""
    chances: Float[Tensor, "B H T S"] | None = None
    """The distribution that the weights were sampled from (hard attention in training)."""


class Focus(nn.Module, ABC):
    """How scores become weights: non-negative, zero where not allowed, summing to one where anything is allowed.

    The exception is monotonic attention, which may stop nowhere: its weights sum to at most one.
    """

    goes_on: ClassVar[bool] = False
    """Whether it needs the previous step's weights; queries then run one after the other."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()

    @abstractmethod
    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Turn each row of scores into weights; `last` is what the previous step left, for a focus that needs it."""


class Coverage(nn.Module, ABC):
    """How attention takes into account what earlier steps have attended to."""

    def __init__(self, sizes: Sizes, key_width: int) -> None:
        """`key_width` is the width of the score's keys."""
        super().__init__()

    def fertility(self, states: Float[Tensor, "B S D"]) -> Float[Tensor, "B S"] | None:
        """Return how much attention each state may get in all, where that is learned."""
        return None

    @abstractmethod
    def forward(
        self, keys: Float[Tensor, "B H S K"], covered: Float[Tensor, "B H S"], fertility: Float[Tensor, "B S"] | None
    ) -> Float[Tensor, "B H S K"]:
        """Return keys that include how much attention each has had."""


scores: Registry[type[Score]] = Registry("attention score", "scores")
reaches: Registry[type[Reach]] = Registry("attention reach", "reaches")
focuses: Registry[type[Focus]] = Registry("attention focus", "focuses")
coverages: Registry[type[Coverage]] = Registry("coverage", "coverages")
