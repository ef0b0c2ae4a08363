"""Laws of hooks on weights, swept over the mechanisms: who only looks changes nothing, and sees what was computed."""

import pytest
import torch

from regard.attention import Carry
from regard.attention.focus.softmax import Softmax
from regard.attention.weight_hooks import WeightHook, hook_of, hooked, is_hooked

from .test_laws import CASES, LENGTHS, B, D, S, T, name_of, short_blocks  # noqa: F401 (a fixture)


class Watch(WeightHook):
    def __init__(self, change=None, dropped=()):
        self.change, self.dropped, self.looks = change, dropped, []

    def __call__(self, look):
        self.looks.append(look)
        return look.weights if self.change is None else self.change(look.weights)


def inputs(case, seed=3):
    torch.manual_seed(seed)
    states = torch.randn(B, T if case.itself else S, D, dtype=torch.float64)
    lengths = LENGTHS.clamp_max(states.shape[1])
    mask = torch.arange(states.shape[1]) < lengths[:, None]
    return torch.randn(B, T, D, dtype=torch.float64), states, mask


@pytest.mark.parametrize("case", CASES, ids=name_of)
@torch.no_grad()
def test_a_hook_that_changes_nothing_changes_nothing(case):
    """By whichever way the mechanism goes without it: in blocks, in windows, along a scan, by torch's kernel."""
    attention = case.build().eval()
    query, states, mask = inputs(case)
    memory, watch = attention.remember(states, mask), Watch()
    plain, fast = attention(query, memory), attention(query, memory, None, False)
    with hooked({attention: watch}):
        seen = attention(query, memory, None, False)
    real = torch.arange(T) < LENGTHS[:, None] if case.itself else torch.ones(B, T, dtype=torch.bool)
    torch.testing.assert_close(seen.context[real], plain.context[real])
    torch.testing.assert_close(seen.context[real], fast.context[real])
    torch.testing.assert_close(seen.weights[real], plain.weights[real])
    assert seen.carry.position == plain.carry.position == T
    if plain.carry.covered is not None:
        torch.testing.assert_close(seen.carry.covered, plain.carry.covered)
    firsts = [look.first for look in watch.looks]
    assert firsts == ([*range(T)] if attention.one_by_one else [0])
    for look in watch.looks:
        assert (look.weights.masked_fill(look.allowed, 0) == 0).all()
        if type(attention.focus) is Softmax and case.config.reach != "local-p":
            lowest = torch.finfo(look.scores.dtype).min
            soft = look.scores.masked_fill(~look.allowed, lowest).softmax(dim=-1)
            torch.testing.assert_close(soft.masked_fill(~look.allowed, 0.0), look.weights)


@pytest.mark.parametrize("case", [case for case in CASES if not case.itself], ids=name_of)
@torch.no_grad()
def test_what_a_hook_returns_is_used_everywhere(case):
    """In the context, in the weights told, and in what coverage has counted: here by twice the weights."""
    attention = case.build().eval()
    query, states, mask = inputs(case)
    memory = attention.remember(states, mask)
    plain = attention(query[:, :1], memory)
    with hooked({attention: Watch(lambda weights: 2 * weights)}):
        seen = attention(query[:, :1], memory, Carry())
        after = is_hooked()
    torch.testing.assert_close(seen.weights, 2 * plain.weights)
    bias = 0 if attention.heads is None else attention.heads.W_o.bias
    torch.testing.assert_close(seen.context - bias, 2 * (plain.context - bias))
    if plain.carry.covered is not None:
        torch.testing.assert_close(seen.carry.covered, 2 * plain.carry.covered)
    assert after
    assert not is_hooked()


@pytest.mark.parametrize("case", [case for case in CASES if not case.itself], ids=name_of)
@torch.no_grad()
def test_what_is_dropped_gets_no_weight(case):
    attention = case.build().eval()
    query, states, mask = inputs(case)
    memory = attention.remember(states, mask)
    with hooked({attention: Watch(dropped=(0, 2))}):
        seen = attention(query, memory)
    assert (seen.weights[..., [0, 2]] == 0).all()
    if "local" not in case.config.reach:  # whose windows take the length from the mask
        masked = attention(query, memory._replace(mask=mask & ~torch.tensor([True, False, True, *[False] * (S - 3)])))
        torch.testing.assert_close(seen.weights, masked.weights)
        torch.testing.assert_close(seen.context, masked.context)


def test_only_the_modules_named_are_hooked_and_the_innermost_hooks_count():
    case = CASES[0]
    one, other = case.build(), case.build()
    outer, inner = Watch(), Watch()
    assert hook_of(one) is None
    with hooked({one: outer}):
        assert (hook_of(one), hook_of(other)) == (outer, None)
        with hooked({other: inner}):
            assert (hook_of(one), hook_of(other)) == (None, inner)
        assert hook_of(one) is outer
        with hooked({}):
            assert not is_hooked()
    with pytest.raises(ValueError, match="x"), hooked({one: outer}):
        raise ValueError("x")
    assert hook_of(one) is None
