"""A look is the same while a graph of it is exported, when it may not go by numbers that only the device knows."""

import pytest
import torch

from regard.attention import Carry, build_attention, focuses, reaches
from regard.config import AttentionConfig

B, T, S, D = 3, 13, 17, 6


def looks(attention, states, mask, query, position):
    """Look twice, the second time from where the first left off."""
    memory = attention.remember(states, mask)
    first = attention(query, memory, Carry(position))
    return first, attention(query[:, :1], memory, first.carry)


def same(attention, states, mask, query, monkeypatch):
    attention.eval()
    with torch.no_grad():
        usual = looks(attention, states, mask, query, 2)
        fast = attention(query, attention.remember(states, mask), Carry(2), look=False)
        monkeypatch.setattr("torch.compiler.is_exporting", lambda: True)
        recorded = looks(attention, states, mask, query, torch.tensor(2))
        plain = attention(query, attention.remember(states, mask), Carry(torch.tensor(2)), look=False)
    torch.testing.assert_close(plain.context, fast.context)
    for one, other in zip(recorded, usual, strict=True):
        torch.testing.assert_close(one.context, other.context)
        torch.testing.assert_close(one.weights, other.weights)


@pytest.fixture
def inputs():
    torch.manual_seed(1)
    mask = torch.ones(B, S, dtype=torch.bool)
    mask[1, 11:] = False
    return torch.randn(B, S, D), mask, torch.randn(B, T, D)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("reach", [name for name in reaches if reaches[name].of_itself])
def test_with_every_reach_within_a_sequence(reach, causal, inputs, monkeypatch):
    config = AttentionConfig(score="scaled-dot", reach=reach, window=3, stride=4)
    attention = build_attention(config, D, D, itself=True, causal=causal)
    same(attention, *inputs, monkeypatch)


@pytest.mark.parametrize("reach", [name for name in reaches if reaches[name].of_another])
@pytest.mark.parametrize("focus", list(focuses))
def test_with_every_focus_at_another_sequence(focus, reach, inputs, monkeypatch):
    if (focus, reach) in (("monotonic", "local-m"), ("monotonic", "local-p")):
        pytest.skip("there is no such attention")
    attention = build_attention(AttentionConfig(width=5, window=3, reach=reach, focus=focus), D, D)
    same(attention, *inputs, monkeypatch)
