"""A search's kernels do what torch does. On a CPU the laws run in Triton's interpreter."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch

from regard.decoding.moving import move
from regard.decoding.top import Top, top_of

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton")
@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
def test_the_laws_hold_in_the_interpreter():
    """In a process of its own: Triton asks once whether it shall interpret."""
    found = subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "gpu", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", __file__],
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    assert "passed" in found.stdout


def by_torch(logits, forbidden, count):
    possible = logits.float().masked_fill(forbidden, float("-inf"))
    return Top(*possible.topk(count, dim=1), logits.float().logsumexp(dim=1))


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("rows", "width", "count"), [(3, 5, 5), (7, 1000, 1), (11, 8001, 5), (2, 32768, 12)])
def test_it_is_torchs(rows, width, count, kind):
    torch.manual_seed(rows)
    # All different, so that there is one answer.
    logits = torch.stack([torch.randperm(width) for _ in range(rows)]).sub(width // 2).div(width / 16)
    logits = logits.to(kind).to(DEVICE)
    forbidden = torch.zeros(width, dtype=torch.bool, device=DEVICE)
    forbidden[:: 3 if width > count + 10 else width] = True
    found, expected = top_of(logits, forbidden, count), by_torch(logits, forbidden, count)
    torch.testing.assert_close(found.logits, expected.logits)
    torch.testing.assert_close(found.whole, expected.whole)
    if kind == torch.float32:
        there = expected.logits > float("-inf")
        assert torch.equal(found.words[there], expected.words[there])
    assert not forbidden[found.words[found.logits > float("-inf")]].any()


@pytest.mark.gpu
def test_what_is_no_number_is_seen():
    logits = torch.zeros(2, 9, device=DEVICE)
    logits[0, 4] = float("nan")
    whole = top_of(logits, torch.zeros(9, dtype=torch.bool, device=DEVICE), 2).whole
    assert whole.isnan().tolist() == [True, False]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(3, 5, 4, 7, 11), (130, 1, 1), (2, 8, 3000), (1, 13, 1025)])
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_hypotheses_move_in_place(shape, kind):
    torch.manual_seed(0)
    count, beam, *rest = shape
    state = torch.randn(count * beam, *rest, device=DEVICE).mul(100).to(kind)
    state = state.transpose(1, 2).clone() if len(rest) > 1 else state  # laid out as caches are
    parents = torch.randint(beam, (count, beam), device=DEVICE)
    expected = torch.stack([own[slots] for own, slots in zip(state.unflatten(0, (count, beam)), parents, strict=True)])
    move(state, parents)
    assert torch.equal(state, expected.flatten(0, 1))
