"""A look is the same while a graph of it is exported, when it may not go by numbers that only the device knows."""

import jaxtyping
import pytest
import torch

from regard.attention import Carry, build_attention, focuses, reaches
from regard.attention.base import LocalReach
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


class Look(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, states, mask, query):
        context, weights, *_ = self.attention(query, self.attention.remember(states, mask))
        return context, weights


@pytest.mark.parametrize("reach", [name for name in reaches if issubclass(reaches[name], LocalReach)])
def test_a_graph_of_a_local_look_is_right_for_every_length(reach, inputs, monkeypatch):
    """The window is as wide as the sources that a graph is given, not as the one that it was made with."""
    look = Look(build_attention(AttentionConfig(width=5, window=4, reach=reach), D, D)).eval()
    free = {1: torch.export.Dim.DYNAMIC}
    # Checks of shapes would make torch take the sizes of examples for the only ones.
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    graph = torch.export.export(look, inputs, dynamic_shapes=(free, free, None), strict=False).module()
    for size in (2, 5, 8, 9, 10, 17, 31):
        states, mask = torch.randn(B, size, D), torch.ones(B, size, dtype=torch.bool)
        mask[1, size // 2 :] = False
        for found, expected in zip(graph(states, mask, inputs[2]), look(states, mask, inputs[2]), strict=True):
            torch.testing.assert_close(found, expected)
