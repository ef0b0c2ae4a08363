"""The composition: a score, a reach, a focus, and what may be added to them."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from regard.attention.base import (
    Attended,
    Carry,
    Coverage,
    Extras,
    Focus,
    Focused,
    LocalReach,
    Memory,
    Reach,
    Score,
    positions_of,
)
from regard.attention.focus.softmax import Softmax
from regard.attention.heads import Heads, repeat
from regard.attention.positions.base import Position
from regard.attention.score.scaled_dot import ScaledDot
from regard.shapes import Bool, Float, Tensor


class Parts(NamedTuple):
    """What an attention is made of; what is None is not there."""

    score: Score
    reach: Reach
    focus: Focus
    context_width: int
    heads: Heads | None = None
    values: nn.Linear | None = None
    position: Position | None = None
    coverage: Coverage | None = None
    temperature: float = 1.0
    learned_temperatures: int = 0
    """Heads that learn a temperature of their own; 0 for none."""
    pruned: tuple[int, ...] = ()
    """Heads whose contribution is taken out."""


class _Looked(NamedTuple):
    """What queries saw, head by head."""

    context: Float[Tensor, "B H T V"]
    weights: Float[Tensor, "B H T S"] | None
    focused: Focused | None = None


class Attention(nn.Module):
    """A weighted sum of the memory's values that depends on a query. Keeps no state between calls."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.score, self.reach, self.focus = parts.score, parts.reach, parts.focus
        self.heads, self.values = parts.heads, parts.values
        self.position, self.coverage = parts.position, parts.coverage
        self.temperature, self.pruned = parts.temperature, parts.pruned
        self.context_width = parts.context_width
        learned = parts.learned_temperatures
        self.log_temperature = nn.Parameter(torch.zeros(learned)) if learned else None

    # -- what can be looked at ----------------------------------------------------------------------------------------

    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], first: int = 0) -> Memory:
        """Make keys and values of states, once; the first of them stands at position `first` of its sequence.

        Padding is erased rather than trusted: a weight of zero on a state that is not finite would still be NaN.
        """
        real = states.masked_fill(~mask[..., None], 0.0)
        if self.heads is not None:
            raw, values = self.heads.keys(real), self.heads.values(real)
        else:
            raw, values = real[:, None], (real if self.values is None else self.values(real))[:, None]
        keys = self.score.keys(raw)
        if self.position is not None:
            keys = self.position.turn(keys, first)
        return Memory(keys, values, mask, None if self.coverage is None else self.coverage.fertility(real))

    def extend(self, memory: Memory, states: Float[Tensor, "B N D"]) -> Memory:
        """Add states to a memory: a sequence that looks at itself remembers each of its steps."""
        real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        new = self.remember(states, real, first=memory.mask.shape[1])
        return Memory(
            torch.cat([memory.keys, new.keys], dim=2),
            torch.cat([memory.values, new.values], dim=2),
            torch.cat([memory.mask, new.mask], dim=1),
        )

    # -- looking ------------------------------------------------------------------------------------------------------

    @property
    def one_by_one(self) -> bool:
        """Whether each look needs the one before."""
        return self.focus.goes_on or self.coverage is not None

    def forward(
        self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry | None = None, look: bool = True
    ) -> Attended:
        """Look at the memory with every query; `carry` is what the looks before left, if there were any.

        Without `look`, weights are made only where they are needed on the way.
        """
        carry = Carry() if carry is None else carry
        if self.one_by_one:
            return self._one_by_one(query, memory, carry)
        looked = self._look(query, memory, carry, look)
        after = Carry(carry.position + query.shape[1])
        return Attended(self._join(looked.context), _in_order(looked.weights), after, _extras(looked.focused))

    def _one_by_one(self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry) -> Attended:
        batch, size = memory.mask.shape
        heads = 1 if self.heads is None else self.heads.heads
        nothing = memory.values.new_zeros(batch, heads, size)
        carry = carry if carry.covered is not None else Carry(carry.position, None, nothing)
        attended = []
        for t in range(query.shape[1]):
            assert carry.covered is not None
            looked = self._look(query[:, t : t + 1], memory, carry, look=True)
            assert looked.weights is not None
            weights, extras = looked.weights[:, :, 0], _extras(looked.focused)
            if self.coverage is not None:
                extras = extras._replace(overlap=torch.minimum(weights, carry.covered).sum(dim=(1, 2))[:, None])
            carry = Carry(carry.position + 1, weights, carry.covered + weights)
            attended.append(Attended(looked.context, looked.weights, carry, extras))
        return Attended(
            self._join(torch.cat([one.context for one in attended], dim=2)),
            torch.cat([_in_order(one.weights) for one in attended], dim=1),  # type: ignore[misc]
            carry,
            join_extras([one.extras for one in attended]),
        )

    def _look(self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry, look: bool) -> _Looked:
        queries = query[:, None] if self.heads is None else self.heads.queries(query)
        if self.position is not None:
            queries = self.position.turn(queries, carry.position)
        heads = queries.shape[1]
        keys, values = repeat(memory.keys, heads), repeat(memory.values, heads)
        if self.coverage is not None:
            assert carry.covered is not None
            keys = self.coverage(keys, carry.covered, memory.fertility)
        memory = Memory(keys, values, memory.mask)
        if isinstance(self.reach, LocalReach):
            return self._look_around(query, queries, memory, carry, look)
        if not look and self._fusible():
            return self._look_fused(queries, memory, carry)
        return self._look_in_blocks(queries, memory, carry, look)

    def _look_in_blocks(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry, look: bool) -> _Looked:
        """Look block by block; what no query of a block may look at is never computed."""
        steps, size, device = queries.shape[2], memory.mask.shape[1], queries.device
        blocks = list(self.reach.blocks(carry.position, steps, size))
        places, found = [], []
        for block in blocks:
            at = positions_of(block.queries, steps, device)
            where = positions_of(block.keys, size, device)
            pairs = self.reach.allowed(at + carry.position, where)
            allowed = memory.mask[:, None, None, block.keys]
            allowed = allowed if pairs is None else allowed & pairs
            asked = queries[:, :, block.queries]
            scores = self.score(asked, memory.keys[:, :, block.keys])
            bias = None if self.position is None else self.position.bias(asked, at + carry.position, where)
            focused = self.focus(self._cooled(scores if bias is None else scores + bias), allowed, carry.last)
            context = focused.weights @ memory.values[:, :, block.keys]
            seen = None if self.position is None else self.position.seen(focused.weights, at + carry.position, where)
            places.append(at)
            found.append(_Looked(context if seen is None else context + seen, None, focused))
        if len(blocks) == 1:
            whole = found[0].focused.weights if found[0].focused is not None else None
            if look and not _is_whole(blocks[0].keys, size):
                whole = self._spread(blocks, found, queries, size)
            return found[0]._replace(weights=whole)
        weights = self._spread(blocks, found, queries, size) if look else None
        order = torch.cat(places).argsort()
        return _Looked(torch.cat([one.context for one in found], dim=2)[:, :, order], weights)

    @staticmethod
    def _spread(blocks: list, found: list[_Looked], queries: Tensor, size: int) -> Tensor:  # type: ignore[type-arg]
        """Put the weights of blocks where they belong among all keys."""
        whole = queries.new_zeros(*queries.shape[:3], size)
        for block, one in zip(blocks, found, strict=True):
            assert one.focused is not None
            whole[:, :, block.queries, block.keys] = one.focused.weights.to(whole.dtype)
        return whole

    def _look_around(
        self, query: Float[Tensor, "B T Q"], queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry, look: bool
    ) -> _Looked:
        """Look at each query's own window: its keys are gathered, and the rest is never computed."""
        assert isinstance(self.reach, LocalReach)
        batch, heads, steps, _ = queries.shape
        positions, allowed, factor = self.reach.window(query, memory.mask, carry.position)
        rows = torch.arange(batch, device=query.device)[:, None, None]
        # (B T) H N K: each query is a sentence of its own, with a short memory of its own.
        keys, values = (part.transpose(1, 2)[rows, positions].transpose(2, 3).flatten(0, 1) for part in memory[:2])
        asked = queries.transpose(1, 2).flatten(0, 1)[:, :, None]
        focused = self.focus(self._cooled(self.score(asked, keys)), allowed.flatten(0, 1)[:, None, None])
        weights = focused.weights if factor is None else focused.weights * factor.flatten(0, 1)[:, None, None]
        context = (weights @ values)[:, :, 0].unflatten(0, (batch, steps)).transpose(1, 2)
        whole = None
        if look:
            wide = positions[:, :, None].expand(-1, -1, heads, -1)
            empty = weights.new_zeros(batch, steps, heads, memory.mask.shape[1])
            whole = empty.scatter_add(-1, wide, weights[:, :, 0].unflatten(0, (batch, steps))).transpose(1, 2)
        told = [
            None if part is None else part[:, :, 0].unflatten(0, (batch, steps)).transpose(1, 2)
            for part in (focused.log_prob, focused.entropy)
        ]
        return _Looked(context, whole, Focused(weights, *told))

    def _fusible(self) -> bool:
        """Whether torch's own fused attention computes the same."""
        plain_position = self.position is None or type(self.position).bias is Position.bias
        plain_reach = type(self.reach).blocks is Reach.blocks
        plain_focus = type(self.focus) is Softmax and self.temperature == 1.0 and self.log_temperature is None
        return type(self.score) is ScaledDot and plain_reach and plain_focus and plain_position

    def _look_fused(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> _Looked:
        steps, device = queries.shape[2], queries.device
        at = torch.arange(carry.position, carry.position + steps, device=device)
        pairs = self.reach.allowed(at, torch.arange(memory.mask.shape[1], device=device))
        allowed = memory.mask[:, None, None]
        allowed = allowed if pairs is None else allowed & pairs
        # A row with nothing to look at is let look at all, lest it be NaN, and then erased.
        some = allowed.any(dim=-1, keepdim=True)
        seen = functional.scaled_dot_product_attention(queries, memory.keys, memory.values, attn_mask=allowed | ~some)
        return _Looked(seen.masked_fill(~some, 0.0), None)

    def _cooled(self, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        if self.temperature != 1.0:
            scores = scores / self.temperature
        return scores if self.log_temperature is None else scores * torch.exp(-self.log_temperature)[:, None, None]

    def _join(self, contexts: Float[Tensor, "B H T V"]) -> Float[Tensor, "B T V"]:
        if self.pruned:
            keep = torch.ones(contexts.shape[1], dtype=contexts.dtype, device=contexts.device)
            keep[list(self.pruned)] = 0.0
            contexts = contexts * keep[:, None, None]
        return contexts[:, 0] if self.heads is None else self.heads.join(contexts)


def join_extras(steps: list[Extras]) -> Extras:
    """Put what steps told one after the other."""
    told = [[part for part in parts if part is not None] for parts in zip(*steps, strict=True)]
    return Extras(*(torch.cat(parts, dim=1) if parts else None for parts in told))


def add_extras(layers: list[Extras]) -> Extras:
    """Sum what layers told."""
    told = [[part for part in parts if part is not None] for parts in zip(*layers, strict=True)]
    return Extras(*(torch.stack(parts).sum(dim=0) if parts else None for parts in told))


def _extras(focused: Focused | None) -> Extras:
    if focused is None or focused.log_prob is None:
        return Extras()
    entropy = None if focused.entropy is None else focused.entropy.sum(dim=1)
    return Extras(focused.log_prob.sum(dim=1), entropy)


def _in_order(weights: Float[Tensor, "B H T S"] | None) -> Float[Tensor, "B T H S"] | None:
    return None if weights is None else weights.transpose(1, 2)


def _is_whole(keys: slice | Tensor, size: int) -> bool:
    return isinstance(keys, slice) and keys.indices(size) == (0, size, 1)
