"""A look by one kernel sees what the plain look sees. On a CPU the laws run in Triton's interpreter."""

import os

import pytest
import torch

from regard.attention import Carry, build_attention, fused
from regard.config import AttentionConfig

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter: an overflow is meant


def test_the_laws_hold_in_the_interpreter(interpret):
    interpret(__file__)


def given(config, rows, times, size, seed=0):
    """An attention, some rows of queries for each row of a memory, and a memory with padding."""
    torch.manual_seed(seed)
    attention = build_attention(config, 24, 32).to(DEVICE).eval()
    query = torch.randn(rows * times, 1, 24, device=DEVICE)
    mask = torch.arange(size, device=DEVICE) < torch.randint(1, size + 1, (rows, 1), device=DEVICE)
    mask[0] = False  # nothing to look at
    return attention, query, attention.remember(torch.randn(rows, size, 32, device=DEVICE), mask)


def compare(monkeypatch, attention, query, memory, carry):
    with torch.no_grad():
        assert attention._can_glance(query[: len(memory.mask), None], memory, carry)
        found = attention(query, memory, carry, look=False)
        monkeypatch.setattr(fused, "can_glance", lambda *_: False)
        monkeypatch.setattr(fused, "usable", lambda *_: False)
        expected = attention(query, memory, carry, look=False)
    torch.testing.assert_close(found.context, expected.context, rtol=1e-4, atol=1e-5)


CONFIGS = {
    "additive": AttentionConfig("additive", width=40),
    "tanh": AttentionConfig("tanh", width=17),
    "general, cooled": AttentionConfig("general", temperature=0.7),
    "cosine": AttentionConfig("cosine", project=True, heads=2, head_width=12),
    "scaled dot, heads": AttentionConfig("scaled-dot", project=True, heads=4, head_width=6),
    "scaled dot, groups": AttentionConfig("scaled-dot", project=True, heads=4, groups=2, head_width=16),
    "additive, heads": AttentionConfig("additive", width=10, project=True, heads=2, head_width=12),
}


@pytest.mark.gpu
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", CONFIGS)
def test_it_sees_what_the_plain_look_sees(monkeypatch, name, times):
    for size in (1, 9, 70):
        with monkeypatch.context() as patch:
            attention, query, memory = given(CONFIGS[name], 4, times, size, seed=size)
            compare(patch, attention, query, memory, Carry())


@pytest.mark.gpu
@pytest.mark.parametrize("place", [0, 4, 8])
def test_it_looks_no_further_than_its_place(monkeypatch, place):
    torch.manual_seed(place)
    config = AttentionConfig("scaled-dot", project=True, heads=2, head_width=12)
    attention = build_attention(config, 24, 24, itself=True, causal=True).to(DEVICE).eval()
    past = attention.remember(torch.randn(3, 9, 24, device=DEVICE), torch.ones(3, 9, dtype=torch.bool, device=DEVICE))
    at = torch.tensor(place, device=DEVICE)
    compare(monkeypatch, attention, torch.randn(3, 1, 24, device=DEVICE), past, Carry(at))


@pytest.mark.gpu
def test_wide_values_are_shared_out():
    from regard.attention.fused.glance_kernels import glance

    torch.manual_seed(1)
    shapes = (2, 1, 3, 40), (2, 1, 11, 40), (2, 1, 11, 300)
    queries, keys, values = (torch.randn(shape, device=DEVICE) for shape in shapes)
    mask = torch.ones(2, 11, dtype=torch.bool, device=DEVICE)
    found = glance(queries, keys, values, mask, scale=0.5)
    expected = torch.softmax(0.5 * queries @ keys.transpose(-2, -1), dim=-1) @ values
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
