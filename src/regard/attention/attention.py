"""The attention module: a score, a reach and a focus, with optional heads, values, positions and coverage."""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from regard.attention import fused
from regard.attention.base import (
    Attended,
    Blocks,
    Carry,
    Coverage,
    Extras,
    Focus,
    Focused,
    LocalReach,
    Memory,
    Reach,
    Score,
    Window,
)
from regard.attention.block_sparse import lay_out, pick
from regard.attention.focus.monotonic import Monotonic
from regard.attention.focus.softmax import Softmax
from regard.attention.monotonic_scan import go_on, pick_heads
from regard.attention.multi_head import Heads, repeat
from regard.attention.positions.base import Position
from regard.attention.score.additive import HiddenLayer
from regard.attention.score.dot import Dot
from regard.attention.score.general import General
from regard.attention.score.scaled_dot import ScaledDot
from regard.attention.weight_hooks import Look, WeightHook, hook_of
from regard.batched_weight_gradients import current, weighted_sum
from regard.masks import erase, exact, is_known
from regard.shapes import Bool, Float, Int, Place, Tensor, places

Places = tuple[Int[Tensor, " T"], Int[Tensor, "#T N"]]
"""Positions of the queries, and of the keys that each query is scored against."""


class Parts(NamedTuple):
    """The parts of an attention module; None where a part is not used."""

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
    """Number of heads with a learned temperature of their own; 0 for none."""
    pruned: tuple[int, ...] = ()
    """Heads whose contribution is set to zero."""


class _Looked(NamedTuple):
    """Contexts and weights, head by head."""

    context: Float[Tensor, "B H T V"]
    weights: Float[Tensor, "B H T S"] | None
    focused: Focused | None = None

    @property
    def reported(self) -> Float[Tensor, "B H T S"] | None:
        """The weights handed to the loss: those used, or the distribution they were sampled from."""
        drawn_from = None if self.focused is None else self.focused.chances
        return self.weights if self.weights is None or drawn_from is None else drawn_from


class Attention(nn.Module):
    """A weighted sum of the memory's values that depends on a query. Holds no state between calls."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.score, self.reach, self.focus = parts.score, parts.reach, parts.focus
        self.heads, self.values = parts.heads, parts.values
        self.position, self.coverage = parts.position, parts.coverage
        self.temperature, self.pruned = parts.temperature, parts.pruned
        self.context_width = parts.context_width
        learned = parts.learned_temperatures
        self.log_temperature = nn.Parameter(torch.zeros(learned)) if learned else None

    # -- the memory --------------------------------------------------------------------------------------------------

    def remember(self, states: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], first: Place = 0) -> Memory:
        """Project states to keys and values, once per sentence; `first` is the position of the first state.

        Padding states are zeroed, not only masked: a weight of zero times a NaN or infinite state would still be NaN.
        """
        return self._remember(erase(states, mask), mask, first)

    def _remember(self, real: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], first: Place) -> Memory:
        if self.heads is not None:
            raw, values = self.heads.keys(real), self.heads.values(real)
        else:
            raw, values = real[:, None], (real if self.values is None else self.values(real))[:, None]
        keys = self.score.keys(raw)
        if self.position is not None:
            keys = self.position.turn(keys, first)
        if self._picks():
            # Local and sparse reaches gather rows at every call: make them contiguous once.
            keys, values = keys.contiguous(), values.contiguous()
        return Memory(keys, values, mask, None if self.coverage is None else self.coverage.fertility(real))

    def extend(self, memory: Memory, states: Float[Tensor, "B N D"]) -> Memory:
        """Append states to a memory, as self-attention does at each decoding step."""
        real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device)
        return memory.extended(self._remember(states, real, memory.mask.shape[1]))

    def enter(self, memory: Memory, states: Float[Tensor, "B 1 D"], at: Int[Tensor, ""]) -> Memory:
        """Write the state of one position into a preallocated memory, in place."""
        new = self._remember(states, memory.mask[:, :1], at)
        memory.keys.index_copy_(2, at[None], new.keys)
        memory.values.index_copy_(2, at[None], new.values)
        return memory

    def alone(self, memory: Memory, rows: Int[Tensor, " N"], places: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        """Return the context that results when all weight is on one given position of a row."""
        return self._join(repeat(memory.values[rows, :, places][:, :, None], self.head_count))[:, 0]

    # -- attending ---------------------------------------------------------------------------------------------------

    @property
    def head_count(self) -> int:
        """Number of heads."""
        return 1 if self.heads is None else self.heads.heads

    @property
    def one_by_one(self) -> bool:
        """Whether each query needs the weights of the one before, so that queries run one after the other."""
        return self.focus.goes_on or self.coverage is not None

    @property
    def steady(self) -> bool:
        """Whether every query is computed the same way, with no host sync to find out which keys to read."""
        return not (self.one_by_one or self._picks() or isinstance(self.focus, Monotonic) or self.pruned)

    def forward(
        self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry | None = None, look: bool = True
    ) -> Attended:
        """Attend to the memory with every query; `carry` is what earlier queries of the sequence left, if any.

        With `look=False`, weights are computed only where the context needs them. The batch of queries may be a
        multiple of the memory's, several consecutive rows to each row of the memory, if the attention is `steady`.
        """
        carry = Carry() if carry is None else carry
        if query.shape[0] > memory.mask.shape[0]:
            return self._together(query, memory, carry, look)
        if self.one_by_one:
            return self._one_by_one(query, memory, carry)
        looked = self._look(query, memory, carry, look)
        after = Carry(carry.position + query.shape[1])
        return Attended(self._join(looked.context), _in_order(looked.reported), after, _extras(looked.focused))

    def _together(self, query: Float[Tensor, "R T Q"], memory: Memory, carry: Carry, look: bool) -> Attended:
        """Fold all rows that share a memory row into one row of queries; their positions make no difference here."""
        steps = query.shape[1]
        attended: Attended = self(query.reshape(memory.mask.shape[0], -1, query.shape[2]), memory, carry, look)
        weights = (
            None
            if attended.weights is None
            else attended.weights.reshape(query.shape[0], steps, *attended.weights.shape[2:])
        )
        return Attended(attended.context.reshape(query.shape[0], steps, -1), weights, Carry(carry.position + steps))

    def _one_by_one(self, query: Float[Tensor, "B T Q"], memory: Memory, carry: Carry) -> Attended:
        batch, size = memory.mask.shape
        # At least float32: this sums many small weights.
        kind = torch.promote_types(memory.values.dtype, torch.float32)
        nothing = memory.values.new_zeros(batch, self.head_count, size, dtype=kind)
        carry = carry if carry.covered is not None else Carry(carry.position, None, nothing)
        attended = []
        for t in range(query.shape[1]):
            assert carry.covered is not None
            looked = self._look(query[:, t : t + 1], memory, carry, look=True)
            assert looked.weights is not None
            weights, extras = looked.weights[:, :, 0], _extras(looked.focused)
            if self.coverage is not None:
                extras = extras._replace(overlap=torch.minimum(weights, carry.covered).sum(dim=(1, 2))[:, None])
            place = None if looked.focused is None else looked.focused.place
            last = weights if place is None else place[:, :, 0]
            carry = Carry(carry.position + 1, last, carry.covered + weights)
            attended.append(Attended(looked.context, looked.reported, carry, extras))
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
        if self.coverage is not None:
            assert carry.covered is not None
            keys = self.coverage(repeat(memory.keys, queries.shape[1]), carry.covered, memory.fertility)
            memory = memory._replace(keys=keys)
        hook = hook_of(self)
        if hook is not None:
            return self._look_hooked(hook, query, queries, memory, carry)
        if isinstance(self.reach, LocalReach):
            return self._look_around(query, queries, memory, carry, look)
        if isinstance(self.focus, Monotonic) and not self.training and not torch.compiler.is_exporting():
            return self._look_onward(queries, memory, carry)
        if not look and self._is_step(queries, memory, carry):
            return self._look_in_step(queries, memory)
        if not look and self._can_use_inference_kernel(queries, memory, carry):
            return self._inference_attention(queries, memory, carry)
        if not look and self._fusible():
            return self._look_fused(queries, memory, carry)
        additive = not look and self._additive(carry) and fused.can_attend(queries, memory.keys, memory.values)
        if additive and isinstance(self.score, HiddenLayer):
            return self._look_additively(self.score, queries, memory, carry)
        # Blocks are cut on the host, which must know the position and the lengths as integers.
        if isinstance(carry.position, Tensor) or torch.compiler.is_exporting():
            return self._look_at_all(queries, memory, carry)
        cuts = self.reach.blocks(carry.position, queries.shape[2], memory.mask.shape[1], queries.device)
        if not cuts:
            return self._look_at_all(queries, memory, carry)
        return self._look_in_blocks(queries, memory, carry, cuts, look)

    def _look_at_all(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> _Looked:
        """Attend to every key with every query."""
        heads, steps = queries.shape[1:3]
        allowed, pair = memory.mask[:, None, None], None
        if not self.reach.sees_all or self._adds_positions():
            at = places(carry.position, steps, queries.device)
            pair = at, torch.arange(memory.mask.shape[1], device=queries.device)[None]
            pairs = self.reach.allowed_in_all(*pair)
            allowed = allowed if pairs is None else allowed & pairs
        scores = self.score(queries, repeat(memory.keys, heads))
        focused = self._focused(scores, queries, pair, allowed, carry)
        context = weighted_sum(focused.weights.to(memory.values.dtype), repeat(memory.values, heads))
        return _Looked(self._with_places(context, focused, pair), focused.weights, focused)

    def _look_hooked(
        self,
        hook: WeightHook,
        query: Float[Tensor, "B T D"],
        queries: Float[Tensor, "B H T Q"],
        memory: Memory,
        carry: Carry,
    ) -> _Looked:
        """Attend by the plain formula, for every combination of parts, with the weights that the hook returns."""
        heads, steps = queries.shape[1:3]
        at = places(carry.position, steps, queries.device)
        pair = at, torch.arange(memory.mask.shape[1], device=queries.device)[None]
        allowed, factor = self._allowed_in_all(query, memory, carry, pair)
        for position in hook.dropped:
            allowed = allowed & (pair[1] != position)
        scores = self.score(queries, repeat(memory.keys, heads))
        if self.position is not None and self.position.adds:
            scores = scores + self.position.bias(queries, pair[1] - at[:, None], self.score)
        scores = self._cooled(scores)
        focused: Focused = self.focus(scores, allowed, carry.last)
        weights = focused.weights if factor is None else focused.weights * factor
        values = repeat(memory.values, heads)
        edited = hook(Look(int(carry.position), scores, allowed, weights, values))
        place = focused.place
        if place is not None and edited is not weights:
            # A focus that goes on from where it stopped goes on from the largest edited weight, if there is any.
            stopped = functional.one_hot(edited.argmax(dim=-1), edited.shape[-1]).to(place.dtype)
            place = torch.where((edited > 0).any(dim=-1, keepdim=True), stopped, place)
        focused = Focused(edited, place=place)
        context = edited.to(values.dtype) @ values
        return _Looked(self._with_places(context, focused, pair), edited, focused)

    def _allowed_in_all(
        self, query: Float[Tensor, "B T D"], memory: Memory, carry: Carry, pair: Places
    ) -> tuple[Bool[Tensor, "B 1 #T S"], Float[Tensor, "B 1 T S"] | None]:
        """Return which of all keys each query may attend to, and the factor on the normalised weights, if any."""
        if isinstance(self.reach, LocalReach):
            window = self.reach.window(query, memory.mask, carry.position, memory.mask.shape[1])
            return window.allowed[:, None], None if window.factor is None else window.factor[:, None]
        pairs = self.reach.allowed_in_all(*pair)
        allowed = memory.mask[:, None, None]
        return allowed if pairs is None else allowed & pairs, None

    def _look_in_blocks(
        self,
        queries: Float[Tensor, "B H T Q"],
        memory: Memory,
        carry: Carry,
        cuts: tuple[Blocks, ...],
        look: bool,
    ) -> _Looked:
        """Attend block by block: pairs outside all blocks are never computed."""
        batch, heads, steps, _ = queries.shape
        size = memory.mask.shape[1]
        at = places(carry.position, steps, queries.device)
        # Scores and key positions of each query, one cut after the other.
        found, keys, pairs = [], [], []
        for i, blocks in enumerate(cuts):
            scores = self.score(
                pick(queries, blocks.queries[None]), repeat(pick(memory.keys, blocks.keys[None]), heads)
            )
            found.append(lay_out(scores, batch, blocks.slots))
            keys.append(blocks.keys[blocks.slots // blocks.queries.shape[1]])
            inside = (keys[-1] >= 0) & (keys[-1] < size)
            close = self.reach.allowed(at, keys[-1], i)
            pairs.append(inside if close is None else inside & close)
        where = torch.cat(keys, dim=1).clamp(0, size - 1)
        allowed = (memory.mask[:, where] & torch.cat(pairs, dim=1))[:, None]
        focused = self._focused(torch.cat(found, dim=-1), queries, (at, where), allowed, carry)
        context: Tensor | None = None
        parts = torch.split(focused.weights, [one.shape[-1] for one in found], dim=-1)
        for blocks, weights in zip(cuts, parts, strict=True):
            values = repeat(pick(memory.values, blocks.keys[None]), heads)
            seen = lay_out(pick(weights, blocks.queries[None]).to(values.dtype) @ values, batch, blocks.slots)
            context = seen if context is None else context + seen
        assert context is not None
        whole = None
        if look:
            empty = focused.weights.new_zeros(batch, heads, steps, size)
            whole = empty.scatter_add(-1, where.expand_as(focused.weights), focused.weights)
            if focused.chances is not None:
                chances = empty.scatter_add(-1, where.expand_as(focused.weights), focused.chances)
                focused = focused._replace(chances=chances)
        return _Looked(self._with_places(context, focused, (at, where)), whole, focused)

    def _focused(
        self,
        scores: Float[Tensor, "B H T N"],
        queries: Float[Tensor, "B H T Q"],
        places: Places | None,
        allowed: Bool[Tensor, "B 1 #T N"],
        carry: Carry,
    ) -> Focused:
        """Turn scores into weights, after adding the position bias if there is one."""
        if self.position is not None and self.position.adds:
            assert places is not None
            at, where = places
            scores = scores + self.position.bias(queries, where - at[:, None], self.score)
        focused: Focused = self.focus(self._cooled(scores), allowed, carry.last)
        return focused

    def _adds_positions(self) -> bool:
        return self.position is not None and self.position.adds

    def _with_places(
        self, context: Float[Tensor, "B H T V"], focused: Focused, places: Places | None
    ) -> Float[Tensor, "B H T V"]:
        """Add the position encoding's share to the contexts."""
        if self.position is None or not self.position.adds:
            return context
        assert places is not None
        at, where = places
        seen = self.position.seen(focused.weights, where - at[:, None])
        return context if seen is None else context + seen

    def _look_onward(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> _Looked:
        """Monotonic attention in evaluation: score keys only from the last position on, with the same result."""
        assert isinstance(self.focus, Monotonic)
        focus, size = self.focus, memory.mask.shape[1]
        start = queries.new_zeros(queries.shape[:2], dtype=torch.long)
        start = start if carry.last is None else carry.last.argmax(dim=-1)
        at, found = go_on(lambda keys: focus.fits(self._cooled(self.score(queries, keys))), memory, start)
        place = functional.one_hot(at[..., None], size).to(queries.dtype)
        weights = place * found[..., None, None]
        context = pick_heads(memory.values, at[..., None]) * found[..., None, None]
        return _Looked(context, weights, Focused(weights, place=place))

    def _look_around(
        self, query: Float[Tensor, "B T D"], queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry, look: bool
    ) -> _Looked:
        """Attend within each query's own window; of a long source, keys outside it are never computed."""
        assert isinstance(self.reach, LocalReach)
        batch, heads, steps, _ = queries.shape
        window = self.reach.window(query, memory.mask, carry.position, self.score.whole_windows)
        if window.whole:
            return self._look_through(queries, memory, window)
        positions, allowed, factor = window[:3]
        # Shape (B T) H N K: each query becomes a batch row of its own, with a short memory of its own.
        keys, values = (repeat(pick(part, positions), heads) for part in memory[:2])
        asked = queries.transpose(1, 2).flatten(0, 1)[:, :, None]
        focused = self.focus(self._cooled(self.score(asked, keys)), allowed.flatten(0, 1)[:, None, None])
        scale = 1.0 if factor is None else factor.flatten(0, 1)[:, None, None]
        weights, chances = focused.weights * scale, focused.chances
        context = (weights @ values)[:, :, 0].unflatten(0, (batch, steps)).transpose(1, 2)
        whole = None
        if look:
            wide = positions[:, :, None].expand(-1, -1, heads, -1)
            empty = weights.new_zeros(batch, steps, heads, memory.mask.shape[1])

            def spread(part: Float[Tensor, "N H 1 W"]) -> Float[Tensor, "B H T S"]:
                laid: Tensor = empty.scatter_add(-1, wide, part.reshape(batch, steps, heads, -1))
                return laid.transpose(1, 2)

            whole = spread(weights)
            chances = None if chances is None else spread(chances * scale)
        log_prob, entropy = (
            None if part is None else part[:, :, 0].unflatten(0, (batch, steps)).transpose(1, 2)
            for part in (focused.log_prob, focused.entropy)
        )
        return _Looked(context, whole, Focused(weights, log_prob, entropy, chances=chances))

    def _look_through(self, queries: Float[Tensor, "B H T Q"], memory: Memory, window: Window) -> _Looked:
        """Score all keys and mask by window: faster than gathering, for sources not much longer than the window."""
        heads = queries.shape[1]
        scores = self._cooled(self.score(queries, repeat(memory.keys, heads)))
        focused = self.focus(scores, window.allowed[:, None])
        scale = 1.0 if window.factor is None else window.factor[:, None]
        weights, chances = focused.weights * scale, focused.chances
        context = weighted_sum(weights.to(memory.values.dtype), repeat(memory.values, heads))
        chances = None if chances is None else chances * scale
        return _Looked(context, weights, focused._replace(weights=weights, chances=chances))

    def _picks(self) -> bool:
        """Whether keys and values are gathered for each query or block."""
        return isinstance(self.reach, LocalReach) or type(self.reach).blocks is not Reach.blocks

    def _fusible(self) -> bool:
        """Whether torch's scaled_dot_product_attention computes the same."""
        plain_reach = type(self.reach).blocks is Reach.blocks
        plain_focus = type(self.focus) is Softmax and self.temperature == 1.0 and self.log_temperature is None
        return type(self.score) is ScaledDot and plain_reach and plain_focus and not self._adds_positions()

    def _look_fused(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> _Looked:
        steps, device = queries.shape[2], queries.device
        allowed = memory.mask[:, None, None]
        if not self.reach.sees_all:
            at = places(carry.position, steps, device)
            pairs = self.reach.allowed(at, torch.arange(memory.mask.shape[1], device=device)[None])
            allowed = allowed if pairs is None else allowed & pairs
        keys, values = (repeat(part, queries.shape[1]) for part in memory[:2])
        # On a GPU the test would be a host sync.
        if is_known(allowed) and allowed.all():
            return _Looked(_scaled_dot_product(queries, keys, values, None), None)
        # A row with no allowed key would give NaN: let it attend to all keys, then zero its context.
        some = allowed.any(dim=-1, keepdim=True)
        seen = _scaled_dot_product(queries, keys, values, allowed | ~some)
        return _Looked(seen if is_known(some) and some.all() else seen.masked_fill(~some, 0.0), None)

    def _additive(self, carry: Carry) -> bool:
        """Whether the fused additive attention computes the same, given a score that it supports."""
        plain_reach = type(self.reach).blocks is Reach.blocks and type(self.reach).allowed is Reach.allowed
        known = not self.reach.causal or isinstance(carry.position, int)
        return plain_reach and known and type(self.focus) is Softmax and not self._adds_positions()

    def _is_step(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> bool:
        """Whether this is one step of a decoder's loop, which has kernels of its own."""
        scored = isinstance(self.score, HiddenLayer | Dot | General)
        return scored and self._additive(carry) and not self.reach.causal and fused.is_step(queries, *memory[:2])

    def _can_use_inference_kernel(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> bool:
        """Whether the kernel for a decoding step without gradients computes the same."""
        scored = isinstance(self.score, HiddenLayer | Dot | General) and type(self.focus) is Softmax
        plain_reach = type(self.reach).blocks is Reach.blocks and type(self.reach).allowed is Reach.allowed
        placed = not self.reach.causal or (isinstance(carry.position, Tensor) and queries.shape[2] == 1)
        return (
            scored
            and plain_reach
            and placed
            and not self._adds_positions()
            and fused.can_use_inference_kernel(queries, *memory[:2])
        )

    def _inference_attention(self, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry) -> _Looked:
        from regard.attention.fused.inference_kernels import inference_attention

        score, vectors, scale = self.score, None, 1.0
        if isinstance(score, HiddenLayer):
            units = score.units(queries)
            vectors = self._weighing(score, units)
        elif type(score) is ScaledDot:
            units, scale = self._cooled(queries), queries.shape[-1] ** -0.5
        else:
            assert isinstance(score, Dot | General)
            units = self._cooled(score.asked(queries))
        last = carry.position if self.reach.causal else None
        assert not isinstance(last, int)
        return _Looked(inference_attention(units, *memory[:3], vectors, last, scale), None)

    def _look_in_step(self, queries: Float[Tensor, "B H 1 Q"], memory: Memory) -> _Looked:
        vectors = None
        score, loop = self.score, current()
        assert loop is not None
        if isinstance(score, HiddenLayer):
            units = score.units(queries)
            # The same tensor at every step, so that its gradient is computed once.
            vectors = loop.once(self, lambda: self._weighing(score, units))
        else:
            assert isinstance(score, Dot | General)
            units = self._cooled(score.asked(queries))
        return _Looked(fused.step(units, *memory[:3], vectors), None)

    def _weighing(self, score: HiddenLayer, units: Float[Tensor, "B H T A"]) -> Float[Tensor, "H A"]:
        """Weight of each hidden unit, divided by the temperature."""
        vectors = score.vectors()
        vectors = torch.ones(units.shape[1::2], device=units.device) if vectors is None else vectors
        return self._cooled(vectors[None, :, None])[0, :, 0]

    def _look_additively(
        self, score: HiddenLayer, queries: Float[Tensor, "B H T Q"], memory: Memory, carry: Carry
    ) -> _Looked:
        units = score.units(queries)
        keys, values = (repeat(part, queries.shape[1]) for part in memory[:2])
        cooled = self._weighing(score, units)
        position = None
        if self.reach.causal:
            assert isinstance(carry.position, int)
            position = carry.position
        return _Looked(fused.additive_attention(units, keys, cooled, values, memory.mask, position), None)

    def _cooled(self, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        if self.temperature != 1.0:
            scores = scores / self.temperature
        return scores if self.log_temperature is None else scores * torch.exp(-self.log_temperature)[:, None, None]

    def _join(self, contexts: Float[Tensor, "B H T V"]) -> Float[Tensor, "B T D"]:
        if self.pruned:
            keep = torch.ones(contexts.shape[1], dtype=contexts.dtype, device=contexts.device)
            keep[list(self.pruned)] = 0.0
            contexts = contexts * keep[:, None, None]
        return contexts.squeeze(1) if self.heads is None else self.heads.join(contexts)


def _scaled_dot_product(
    queries: Float[Tensor, "B H T K"],
    keys: Float[Tensor, "B H S K"],
    values: Float[Tensor, "B H S V"],
    allowed: Bool[Tensor, "B 1 #T S"] | None,
) -> Float[Tensor, "B H T V"]:
    """Call torch's kernel; when training on a CPU, in float32: its backward is eight times slower in half precision."""
    if not (queries.device.type == "cpu" and torch.is_grad_enabled()):
        return functional.scaled_dot_product_attention(queries, keys, values, attn_mask=allowed)
    with torch.autocast("cpu", enabled=False):
        return functional.scaled_dot_product_attention(exact(queries), exact(keys), exact(values), attn_mask=allowed)


def join_extras(steps: list[Extras]) -> Extras:
    """Concatenate the extras of consecutive steps."""
    told = [[part for part in parts if part is not None] for parts in zip(*steps, strict=True)]
    return Extras(*(torch.cat(parts, dim=1) if parts else None for parts in told))


def add_extras(layers: list[Extras]) -> Extras:
    """Sum the extras of several layers."""
    told = [[part for part in parts if part is not None] for parts in zip(*layers, strict=True)]
    return Extras(*(torch.stack(parts).sum(dim=0) if parts else None for parts in told))


def _extras(focused: Focused | None) -> Extras:
    if focused is None or focused.log_prob is None:
        return Extras()
    entropy = None if focused.entropy is None else focused.entropy.sum(dim=1)
    return Extras(focused.log_prob.sum(dim=1), entropy)


def _in_order(weights: Float[Tensor, "B H T S"] | None) -> Float[Tensor, "B T H S"] | None:
    return None if weights is None else weights.transpose(1, 2)
