"""Each reach against its definition as a set of pairs, and what it leaves out is never computed.

Axes are distinct primes.
"""

import itertools
import math
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import Carry, Memory, build_attention, focuses, reaches
from regard.attention.base import Focused, LocalReach, Score, Sizes
from regard.attention.block_sparse import pick
from regard.attention.focus import Softmax
from regard.attention.score.additive import HiddenLayer
from regard.config import AttentionConfig
from regard.errors import ConfigError
from regard.masks import from_lengths, masked_softmax

B, T, D = 2, 97, 8
LENGTHS = torch.tensor([97, 41])
CPU = torch.device("cpu")


# -- the definitions, pair by pair: may position i look at position j? ------------------------------------------------


def in_causal(i, j, causal, w, stride):
    return j <= i


def in_window(i, j, causal, w, stride):
    return i - w <= j <= (i if causal else i + w)


def in_dilated(i, j, causal, w, stride):
    ahead = [] if causal else [i + k * stride for k in range(1, w + 1)]
    return j in [*(i - k * stride for k in range(w + 1)), *ahead]


def in_strided(i, j, causal, w, stride):
    if causal:
        return j <= i and (j >= i - stride or (i - j) % stride == 0)
    return i - stride <= j <= i + stride or (i - j) % stride == 0


def in_chunked(i, j, causal, w, stride):
    own = range(i // w * w, i // w * w + w)
    before = range(i // w * w - w, i // w * w)
    return (j in own or j in before) and (j <= i or not causal)


DEFINITIONS = {
    "global": lambda i, j, causal, w, stride: j <= i or not causal,
    "causal": in_causal,
    "window": in_window,
    "dilated": in_dilated,
    "strided": in_strided,
    "chunked": in_chunked,
}
SHORT = ("window", "dilated", "strided", "chunked")

by_name = pytest.mark.parametrize("name", DEFINITIONS)
by_short_name = pytest.mark.parametrize("name", SHORT)
by_direction = pytest.mark.parametrize("causal", [False, True], ids=["both ways", "causal"])


def pairs_of(name, causal, w, stride, queries, keys):
    """Write the definition as a matrix."""
    rows = [[DEFINITIONS[name](i, j, causal, w, stride) for j in keys] for i in queries]
    return torch.tensor(rows, dtype=torch.bool).view(len(queries), len(keys))


def test_every_reach_has_a_definition():
    assert {*DEFINITIONS, "local-m", "local-p"} == set(reaches)


def small(name, causal, w, stride):
    return reaches[name](Sizes(D, D, window=w, stride=stride, causal=causal))


@by_name
@by_direction
@pytest.mark.parametrize(("w", "stride"), [(1, 1), (1, 7), (3, 2), (5, 11), (53, 3), (2, 29)])
def test_allowed_is_the_definition_and_each_pair_is_in_one_cut(name, causal, w, stride):
    reach = small(name, causal, w, stride)
    at = torch.arange(31)
    cuts = range(max(1, len(reach.blocks(0, 31, 31, CPU))))
    found = [reach.allowed(at, at[None], cut) for cut in cuts]
    count = sum(torch.ones(31, 31).long() if one is None else one.long() for one in found)
    assert torch.equal(count, pairs_of(name, causal, w, stride, range(31), range(31)).long())


@by_short_name
@by_direction
@pytest.mark.parametrize(("w", "stride"), [(1, 1), (1, 7), (3, 2), (5, 11), (13, 3), (113, 5), (2, 29)])
@pytest.mark.parametrize(("first", "steps"), [(0, 1), (0, 97), (1, 1), (5, 1), (44, 1), (7, 71), (43, 2)])
def test_blocks_hold_every_query_once_and_all_its_keys(name, causal, w, stride, first, steps):
    size = first + steps + (0 if causal else 5)
    cuts = small(name, causal, w, stride).blocks(first, steps, size, CPU)
    expected = pairs_of(name, causal, w, stride, range(first, first + steps), range(size))
    held = torch.zeros_like(expected)
    for queries, keys, slots in cuts:
        found = queries.flatten().tolist()
        assert sorted(q for q in found if 0 <= q < steps) == list(range(steps))
        assert [found[slot] for slot in slots] == list(range(steps))
        for block, near in zip(queries.tolist(), keys.tolist(), strict=True):
            real = [key for key in near if 0 <= key < size]
            assert len(real) == len(set(real))
            for q in block:
                if 0 <= q < steps:
                    held[q, real] = True
    assert not (expected & ~held).any()
    if steps == 1:
        # A single query has its own keys alone (both cuts of a strided reach hold the query itself).
        extra = sum(keys.numel() for _, keys, _ in cuts) - int(expected.sum())
        assert extra <= (1 if name == "strided" else 0)


# -- what is seen -----------------------------------------------------------------------------------------------------


def made(name, causal, *, heads=1, groups=0, w=5, stride=7, position="none", score="scaled-dot"):
    torch.manual_seed(1)
    config = AttentionConfig(
        score, name, heads=heads, groups=groups, project=True, window=w, stride=stride, width=3, head_width=D // 2
    )
    return build_attention(config, D, D, itself=True, causal=causal, position=position).double()


def dense(look, name, causal, w=5, stride=7):
    """Let an attention compute all pairs, and mask by the definition."""
    look.reach.blocks = lambda first, steps, size, device: ()
    look.reach.allowed = lambda queries, keys, cut=0: pairs_of(
        name, causal, w, stride, queries.tolist(), keys[0].tolist()
    )
    return look


@pytest.fixture
def inputs():
    states = torch.randn(B, T, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return states, from_lengths(LENGTHS)


@by_name
@by_direction
@torch.no_grad()
def test_equals_loops_over_the_definition(name, causal, inputs):
    states, mask = inputs
    look = made(name, causal)
    memory = look.remember(states, mask)
    attended = look(states, memory)
    queries = look.heads.queries(states)
    for b, i in itertools.product(range(B), (0, 1, 6, 7, 35, 40, 41, 96)):
        near = [j for j in range(int(LENGTHS[b])) if DEFINITIONS[name](i, j, causal, 5, 7)]
        weights = torch.zeros(T, dtype=torch.float64)
        if near:
            scores = [float(queries[b, 0, i] @ memory.keys[b, 0, j]) / math.sqrt(D // 2) for j in near]
            total = sum(math.exp(score) for score in scores)
            weights[near] = torch.tensor([math.exp(score) / total for score in scores], dtype=torch.float64)
        torch.testing.assert_close(attended.weights[b, i, 0], weights)
        seen = sum((weights[j] * memory.values[b, 0, j] for j in near), torch.zeros(D // 2, dtype=torch.float64))
        torch.testing.assert_close(attended.context[b, i], look.heads.W_o(seen))


def gradients(look, states, mask, look_too):
    states = states.clone().requires_grad_()
    attended = look(states, look.remember(states, mask), look=look_too)
    weight = torch.arange(attended.context.numel(), dtype=torch.float64).view_as(attended.context).cos()
    loss = (attended.context * weight).sum()
    if look_too:
        loss = loss + attended.weights.square().sum()
    look.zero_grad()
    loss.backward()
    return attended.context, {"states": states.grad, **{name: p.grad for name, p in look.named_parameters()}}


@by_short_name
@by_direction
@pytest.mark.parametrize("look_too", [False, True], ids=["unseen", "seen"])
@pytest.mark.parametrize(
    ("score", "heads", "groups", "position"),
    [
        ("scaled-dot", 2, 2, "none"),
        ("scaled-dot", 4, 2, "shaw"),
        ("general", 2, 1, "rotary"),
        ("additive", 3, 1, "alibi"),
    ],
)
def test_outputs_and_gradients_are_those_of_all_pairs_masked(
    name, causal, look_too, score, heads, groups, position, inputs
):
    states, mask = inputs
    given = {"score": score, "heads": heads, "groups": groups, "position": position}
    context, found = gradients(made(name, causal, **given), states, mask, look_too)
    plain, expected = gradients(dense(made(name, causal, **given), name, causal), states, mask, look_too)
    torch.testing.assert_close(context, plain)
    assert set(found) == set(expected)
    for parameter, gradient in expected.items():
        torch.testing.assert_close(found[parameter], gradient, msg=lambda text, p=parameter: f"{p}: {text}")


@by_name
@pytest.mark.parametrize("position", ["none", "shaw", "rotary", "alibi"])
def test_one_step_at_a_time_equals_all_at_once(name, position, inputs):
    states, mask = inputs
    states = states[:1, :43]
    look = made(name, True, heads=2, position=position)
    whole = look(states, look.remember(states, mask[:1, :43]))
    memory, carry = look.remember(states[:, :1], mask[:1, :1]), Carry()
    for t in range(43):
        if t:
            memory = look.extend(memory, states[:, t : t + 1])
        step = look(states[:, t : t + 1], memory, carry)
        carry = step.carry
        torch.testing.assert_close(step.context[:, 0], whole.context[:, t])
        torch.testing.assert_close(step.weights[:, 0], whole.weights[:, t, :, : t + 1])


@by_name
def test_some_steps_at_a_time_equal_all_at_once(name, inputs):
    states, mask = inputs
    states, mask = states[:1], mask[:1]
    look = made(name, True, heads=2, position="alibi")
    whole = look(states, look.remember(states, mask), look=False).context
    memory, carry, found = None, Carry(), []
    for more in states.split((3, 50, 1, 43), dim=1):
        memory = look.remember(more, mask[:, : more.shape[1]]) if memory is None else look.extend(memory, more)
        attended = look(more, memory, carry, look=False)
        carry = attended.carry
        found.append(attended.context)
    torch.testing.assert_close(torch.cat(found, dim=1), whole)


class Telling(Softmax):
    """A focus that tells something of each query."""

    def forward(self, scores, allowed, last=None):
        weights = super().forward(scores, allowed).weights
        return Focused(weights, weights.amax(-1).log(), weights.square().sum(-1))


@by_short_name
def test_what_a_focus_tells_is_in_the_order_of_the_queries(name, inputs):
    states, mask = inputs[0], torch.ones(B, T, dtype=torch.bool)
    look, plain = made(name, True), dense(made(name, True), name, True)
    look.focus = plain.focus = Telling(Sizes(D, D))
    found, expected = (one(states, one.remember(states, mask)).extras for one in (look, plain))
    torch.testing.assert_close(found.log_prob, expected.log_prob)
    torch.testing.assert_close(found.entropy, expected.entropy)


@by_short_name
@by_direction
def test_bfloat16_autocast_is_near_and_trains(name, causal, inputs):
    states, mask = inputs[0].float(), inputs[1]
    for position in ("shaw", "rotary", "alibi"):
        look = made(name, causal, heads=2, position=position).float()
        exact = look(states, look.remember(states, mask), look=False).context
        with torch.autocast("cpu", torch.bfloat16):
            near = look(states, look.remember(states, mask), look=False).context
        assert (near.float() - exact).norm() < 0.05 * exact.norm()
        near.float().square().sum().backward()
        assert all(p.grad is not None and p.grad.isfinite().all() for p in look.parameters())


@by_short_name
@by_direction
@pytest.mark.parametrize("focus", [name for name in focuses if not focuses[name].goes_on])
@pytest.mark.parametrize(("first", "steps"), [(131, 1), (131, 37), (533, 2)])
def test_queries_beyond_every_key_see_nothing(name, causal, focus, first, steps, inputs):
    """As a row that is wholly masked: zeros, forward and backward; also where a block has no key at all."""
    torch.manual_seed(1)
    config = AttentionConfig("scaled-dot", name, focus, heads=2, window=3, stride=100)
    look = build_attention(config, D, D, itself=True, causal=causal, position="shaw").double()
    states, mask = inputs[0][:, :31].clone().requires_grad_(), inputs[1][:, :31]
    query = inputs[0][:, :steps].clone().requires_grad_()
    assert not pairs_of(name, causal, 3, 100, range(first, first + steps), range(31)).any()
    for look_too in (False, True):
        attended = look(query, look.remember(states, mask), Carry(first), look=look_too)
        assert torch.equal(attended.context, look.heads.W_o.bias.expand(B, steps, D))
        if look_too:
            assert attended.weights.shape == (B, steps, 2, 31)
            assert not attended.weights.any()
        attended.context.square().sum().backward()
        assert not query.grad.any()
        assert not states.grad.any()


@by_short_name
@by_direction
def test_queries_that_run_beyond_the_keys_are_as_all_pairs_masked(name, causal, inputs):
    """Some of them see the end of the memory, the others nothing; a strided reach sees it from any distance."""
    states, mask = inputs
    given = states[:, :31], mask[:, :31]
    for first in (0, 25, 33, 60, 499):
        plain = dense(made(name, causal, heads=2), name, causal)
        wanted = plain(states[:, :53], plain.remember(*given), Carry(first))
        look = made(name, causal, heads=2)
        found = look(states[:, :53], look.remember(*given), Carry(first))
        torch.testing.assert_close(found.context, wanted.context)
        torch.testing.assert_close(found.weights, wanted.weights)


# -- what is left out -------------------------------------------------------------------------------------------------


@by_short_name
def test_what_a_step_cannot_see_is_never_touched(name, inputs):
    states, mask = inputs
    look = made(name, True, heads=2)
    memory = look.remember(states[:, :83], mask[:, :83])
    for t in (0, 5, 64, 82):
        step = Memory(*(part[:, :, : t + 1] for part in memory[:2]), mask[:, : t + 1])
        hidden = ~pairs_of(name, True, 5, 7, [t], range(t + 1))[0]
        poisoned = Memory(*(part.masked_fill(hidden[:, None], math.nan) for part in step[:2]), step.mask)
        clean, dirty = (look(states[:, t : t + 1], given, Carry(t)) for given in (step, poisoned))
        assert torch.equal(clean.context, dirty.context)
        assert torch.equal(clean.weights, dirty.weights)


@by_short_name
def test_what_lies_far_away_does_not_enter_a_block(name):
    """A key that is not a number harms the queries of its own block's reach, and no other."""
    states = torch.randn(1, 512, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    look = made(name, True, w=4, stride=32)
    mask = torch.ones(1, 512, dtype=torch.bool)
    memory = look.remember(states, mask)
    poisoned = memory._replace(values=memory.values.index_fill(2, torch.tensor([3]), math.nan))
    hurt = look(states, poisoned, look=False).context.isnan().any(-1)[0]
    may_be = torch.arange(512) % 32 == 3 if name in ("strided", "dilated") else torch.zeros(512, dtype=torch.bool)
    may_be[:64] = True
    assert hurt[3]
    assert not (hurt & ~may_be).any()


class Counted(TorchDispatchMode):
    """Counts the elements that operations yield, forward and backward, and remembers the largest."""

    def __init__(self) -> None:
        super().__init__()
        self.total = self.largest = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            # What is expanded only looks large.
            if isinstance(one, torch.Tensor) and 0 not in one.stride():
                self.total += one.numel()
                self.largest = max(self.largest, one.numel())
        return found


def work(look, steps, query_width=D):
    states = torch.randn(1, steps, query_width, requires_grad=True)
    mask = torch.ones(1, steps, dtype=torch.bool)
    with Counted() as counted:
        look(states, look.remember(states, mask), look=False).context.sum().backward()
    return counted


@by_direction
@pytest.mark.parametrize(
    ("name", "position"),
    [
        ("window", "none"),
        ("window", "shaw"),
        ("window", "alibi"),
        ("dilated", "rotary"),
        ("dilated", "none"),
        ("chunked", "shaw"),
        ("chunked", "none"),
    ],
)
def test_four_times_the_length_is_four_times_the_work_and_nothing_is_square(name, position, causal):
    look = made(name, causal, position=position).float()
    short, long = work(look, 1024), work(look, 4096)
    assert long.total < 4.2 * short.total
    assert long.largest < 4096 * 4096 / 20


@by_direction
def test_a_strided_reach_costs_a_root(causal):
    """The cost is T (l + S / l): with l = sqrt(S), four times the length is eight times the work."""
    short, long = (work(made("strided", causal, stride=int(steps**0.5)).float(), steps) for steps in (1024, 4096))
    assert long.total < 8.2 * short.total
    assert long.largest < 4096 * 4096 / 10


@pytest.mark.parametrize("name", ["local-m", "local-p"])
@pytest.mark.parametrize("heads", [1, 2])
def test_four_times_the_source_and_target_is_four_times_the_work_of_a_local_reach(name, heads):
    look = build_attention(AttentionConfig("dot", name, window=3, heads=heads), D, D)
    short, long = work(look, 512), work(look, 2048)
    assert long.total < 4.2 * short.total
    assert long.largest < 2048 * 2048 / 10


# -- local reaches ----------------------------------------------------------------------------------------------------

by_local_name = pytest.mark.parametrize("name", ["local-m", "local-p"])
BL, TL, SL, QL, W = 3, 13, 11, 7, 2
SOURCES = torch.tensor([11, 5, 1])


def local(name, score="dot", w=W, heads=1):
    torch.manual_seed(1)
    look = build_attention(AttentionConfig(score, name, window=w, width=5, heads=heads, head_width=4), QL, QL)
    return look.double()


@pytest.fixture(params=[0, 3], ids=["picked", "whole if short"])
def pair(request, monkeypatch):
    """Looked at in windows that are picked, however short the source is, or whole where it is short."""
    for kind in (Score, HiddenLayer):
        monkeypatch.setattr(kind, "whole_windows", request.param)
    generator = torch.Generator().manual_seed(2)
    query = torch.randn(BL, TL, QL, generator=generator, dtype=torch.float64)
    states = torch.randn(BL, SL, QL, generator=generator, dtype=torch.float64)
    return query, states, from_lengths(SOURCES)


def centre_of(look, name, query, t, length):
    if name == "local-m":
        return min(t, length - 1)
    hidden = [math.tanh(float(look.reach.W_p.weight[i] @ query)) for i in range(QL)]
    told = sum(float(look.reach.v.weight[0, i]) * hidden[i] for i in range(QL))
    return length / (1 + math.exp(-told / math.sqrt(QL)))


@by_local_name
@pytest.mark.parametrize("w", [1, 2, 5])
@torch.no_grad()
def test_local_equals_the_equations(name, w, pair):
    query, states, mask = pair
    look = local(name, w=w)
    if name == "local-p":
        look.reach.v.weight.data.mul_(9.0 * math.sqrt(QL))  # so that centres are all over the source
    attended = look(query, look.remember(states, mask))
    centres = set()
    for b, t in itertools.product(range(BL), range(TL)):
        length = int(SOURCES[b])
        p = centre_of(look, name, query[b, t], t, length)
        centres.add(round(p))
        near = [s for s in range(length) if p - w <= s <= p + w]
        assert near
        total = sum(math.exp(float(query[b, t] @ states[b, s])) for s in near)
        weights = torch.zeros(SL, dtype=torch.float64)
        for s in near:
            weights[s] = math.exp(float(query[b, t] @ states[b, s])) / total
            if name == "local-p":
                weights[s] *= math.exp(-((s - p) ** 2) / (2 * (w / 2) ** 2))
        torch.testing.assert_close(attended.weights[b, t, 0], weights)
        torch.testing.assert_close(attended.context[b, t], weights @ states[b])
    assert len(centres) > 8


def steps_equal(whole, look, query, memory):
    carry = Carry()
    for t in range(TL):
        step = look(query[:, t : t + 1], memory, carry)
        carry = step.carry
        torch.testing.assert_close(step.context[:, 0], whole.context[:, t])
        torch.testing.assert_close(step.weights[:, 0], whole.weights[:, t])


@by_local_name
@pytest.mark.parametrize(("score", "heads"), [("dot", 1), ("additive", 1), ("scaled-dot", 3)])
def test_local_steps_equal_all_at_once(name, score, heads, pair):
    query, states, mask = pair
    look = local(name, score, heads=heads)
    memory = look.remember(states, mask)
    whole = look(query, memory)
    torch.testing.assert_close(look(query, memory, look=False).context, whole.context)
    steps_equal(whole, look, query, memory)


@by_local_name
def test_local_gradients_are_those_of_finite_differences(name, pair):
    look = local(name)
    query, states = (part[:2, :3].clone().requires_grad_() for part in pair[:2])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    assert torch.autograd.gradcheck(lambda q, h: look(q, look.remember(h, mask)).context, (query, states))


def test_the_gaussian_teaches_where_to_look(pair):
    """Only the Gaussian knows the centre: with it both weights of the prediction get a gradient, and it is right."""
    query, states, mask = pair
    look = local("local-p")
    weights = list(look.reach.parameters())
    assert len(weights) == 2

    def loss(*given):
        for mine, new in zip(weights, given, strict=True):
            mine.data = new.detach()
        return look(query, look.remember(states, mask)).context.square().sum()

    loss(*(w.detach().clone() for w in weights)).backward()
    for i, parameter in enumerate(weights):
        near = [w.detach().clone() for w in weights]
        change = torch.zeros_like(parameter)
        change[0, 3] = 1e-6
        up = loss(*(w + change if i == k else w for k, w in enumerate(near))).item()
        down = loss(*(w - change if i == k else w for k, w in enumerate(near))).item()
        loss(*near)
        assert abs(parameter.grad[0, 3]) > 1e-6
        assert float(parameter.grad[0, 3]) == pytest.approx((up - down) / 2e-6, rel=1e-4)


@pytest.mark.parametrize("width", [37, 257, 1031])
def test_adam_leads_the_centre_and_does_not_throw_it(width):
    """A step moves all weights of the prediction at once, however many: centres must not end where no gradient is."""
    length, rows = 23, 7
    torch.manual_seed(3)
    look = build_attention(AttentionConfig("dot", "local-p", window=5), width, width)
    query = torch.randn(width) + 0.3 * torch.randn(rows, 11, width)  # states of a network have much in common
    memory = look.remember(torch.zeros(rows, length, width), from_lengths(torch.full((rows,), length)))
    adam = torch.optim.Adam(look.parameters(), 4e-3)

    def found() -> torch.Tensor:
        weights = look(query, memory).weights.squeeze(2)
        return (weights * torch.arange(length)).sum(-1) / weights.sum(-1)

    places = []
    for steps in (10, 90):
        for _ in range(steps):
            adam.zero_grad()
            (found() - 22).square().mean().backward()
            adam.step()
        places.append(found().mean())
    assert 12 < places[0] < 19 < places[1]


@by_local_name
def test_what_lies_outside_a_local_window_is_never_touched(name, pair):
    query, states, mask = pair
    look = local(name, w=1)
    memory = look.remember(states, mask)
    step = query[:1, 2:3]
    clean = look(step, Memory(*(part[:1] for part in memory[:3])), Carry(2))
    window = look.reach.window(step, mask[:1], 2, look.score.whole_windows)
    hidden = torch.ones(SL, dtype=torch.bool)
    hidden[window.positions.flatten().clamp(0, SL - 1)] = False
    assert hidden.sum() >= SL - 3
    poisoned = Memory(*(part[:1].masked_fill(hidden[:, None], math.nan) for part in memory[:2]), mask[:1])
    dirty = look(step, poisoned, Carry(2))
    assert torch.equal(clean.context, dirty.context)
    assert torch.equal(clean.weights, dirty.weights)


@by_local_name
@pytest.mark.parametrize(("w", "picked"), [(1, 3), (2, 5), (4, 9), (5, 11), (6, 11), (10_000, 11)])
def test_a_local_window_picks_places_that_there_are_and_each_of_them_once(name, w, picked, pair, monkeypatch):
    """However wide it is, at most all of them; and wherever its centre lies, at an end too."""
    query, states, mask = pair
    look = local(name, w=w)
    if name == "local-p":
        look.reach.v.weight.data.mul_(9.0 * math.sqrt(QL))
    gathered = []
    monkeypatch.setattr(
        "regard.attention.attention.pick", lambda rows, index: gathered.append(index) or pick(rows, index)
    )
    look(query, look.remember(states, mask))
    worth = look.score.whole_windows * (2 * w + 1) < SL
    assert [tuple(index.shape) for index in gathered] == [(BL, TL, picked)] * 2 * worth  # of keys, and of values
    for index in gathered:
        assert index.min() >= 0
        assert index.max() < SL
        assert (index.diff(dim=-1) == 1).all()


def whole_window(look, name, query, states, mask, first):
    """Look at all places with the window as a mask: what a local look is, at its dearest."""
    w, length = look.reach.width, mask.sum(1)[:, None, None]
    if name == "local-m":
        centre = torch.minimum(first + torch.arange(query.shape[1]), length[..., 0] - 1).clamp(min=0)[..., None]
    else:
        told = look.reach.v(torch.tanh(look.reach.W_p(query)))
        centre = length * torch.sigmoid(told / math.sqrt(QL))
    away = torch.arange(mask.shape[1]) - centre
    allowed = (away.abs() <= w) & mask[:, None]
    weights = masked_softmax(look.score(query[:, None], look.score.keys(states[:, None]))[:, 0], allowed)
    return weights * torch.exp(-away.square() / (w * w / 2)) if name == "local-p" else weights


@by_local_name
@pytest.mark.parametrize("w", [1, 4, 5, 6, 13, 10_000])
@pytest.mark.parametrize("first", [0, 7])
def test_a_local_look_and_its_gradients_are_those_of_a_look_at_all_through_its_window(name, w, first, pair):
    """Wherever the source ends within the window, and however much wider than the source the window is."""
    query, states, mask = pair
    mask = mask.clone()
    mask[1] = False  # a row without a source
    look = local(name, "additive", w=w)
    if name == "local-p":
        look.reach.v.weight.data.mul_(9.0 * math.sqrt(QL))
    results = []
    for plain in (False, True):
        look.zero_grad()
        asked, given = (part.clone().requires_grad_() for part in (query, states))
        if plain:
            weights = whole_window(look, name, asked, given, mask, first)
            context = weights @ given
        else:
            attended = look(asked, look.remember(given, mask), Carry(first))
            context, weights = attended.context, attended.weights[:, :, 0]
        (context.sin().sum() + weights.square().sum()).backward()
        results.append([context, weights, asked.grad, given.grad, *(p.grad for p in look.parameters())])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@by_local_name
@pytest.mark.parametrize("focus", ["hard", "sparsemax", "gumbel", "entmax"])
@pytest.mark.parametrize("coverage", ["none", "see2017"])
@torch.no_grad()
def test_steps_equal_all_at_once_where_a_window_is_wider_than_the_source(name, focus, coverage, pair):
    query, states, mask = pair
    torch.manual_seed(1)
    config = AttentionConfig("additive", name, focus, window=10_000, width=5, coverage=coverage)
    look = build_attention(config, QL, QL).double().eval()
    memory = look.remember(states, mask)
    whole = look(query, memory)
    assert whole.weights.any(-1).all()
    steps_equal(whole, look, query, memory)


@by_local_name
def test_a_row_without_a_source_is_zero(name, pair):
    query, states, mask = pair
    mask = mask.clone()
    mask[1] = False
    query.requires_grad_()
    look = local(name)
    context, weights, _, _ = look(query, look.remember(states, mask))
    assert (context[1] == 0).all()
    assert (weights[1] == 0).all()
    context.square().sum().backward()
    assert (query.grad[1] == 0).all()
    assert query.grad.isfinite().all()


def test_local_weights_of_a_prediction_are_not_normalised_again(pair):
    query, states, mask = pair
    for name in ("local-m", "local-p"):
        look = local(name)
        sums = look(query, look.remember(states, mask)).weights.sum(-1)
        if name == "local-m":
            torch.testing.assert_close(sums, torch.ones_like(sums))
        else:
            assert (sums < 1).all()
            assert (sums > 0).all()


@by_local_name
def test_a_local_reach_works_in_bfloat16(name, pair):
    query, states, mask = (part.float() if part.is_floating_point() else part for part in pair)
    look = local(name).float()
    exact = look(query, look.remember(states, mask)).context
    with torch.autocast("cpu", torch.bfloat16):
        near = look(query, look.remember(states, mask)).context
    assert (near.float() - exact).norm() < 0.1 * exact.norm()


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in reaches if issubclass(reaches[name], LocalReach)])
def test_a_sequence_has_no_other_to_find_a_place_in(name):
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig("dot", name), D, D, itself=True)
    assert str(caught.value) == (
        f"model.self_attention.reach={name} centres a window in another sequence, so self-attention cannot use it: use "
        "window, dilated, strided or chunked."
    )


@pytest.mark.parametrize("name", ["causal", *SHORT])
def test_there_is_no_distance_to_another_sequence(name):
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig("dot", name), D, D)
    assert str(caught.value) == (
        f"model.attention.reach={name} goes by the distance between two positions of one sequence, but the decoder "
        "attends to another one, the source: use global, local-m or local-p."
    )


@pytest.mark.parametrize("setting", ["window", "stride"])
def test_a_window_of_nothing_is_refused(setting):
    with pytest.raises(ConfigError) as caught:
        build_attention(AttentionConfig("dot", "strided", **{setting: 0}), D, D, itself=True)
    assert str(caught.value) == f"model.self_attention.{setting} must be at least 1, got 0."
