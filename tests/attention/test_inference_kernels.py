"""A look by one kernel sees what the plain look sees. On a CPU the laws run in Triton's interpreter."""

import os

import pytest
import torch

from regard.attention import Carry, build_attention, fused
from regard.config import AttentionConfig
from regard.masks import masked_softmax

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cpu" if INTERPRETED else "cuda"
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter: an overflow is meant


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Let the interpreter have several tiles of little, as a GPU has of much."""
    if INTERPRETED:
        from regard.attention.fused import inference_kernels

        monkeypatch.setattr(inference_kernels, "TILE", 512)


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
        assert attention._can_use_inference_kernel(query[: len(memory.mask), None], memory, carry)
        found = attention(query, memory, carry, look=False)
        monkeypatch.setattr(fused, "can_use_inference_kernel", lambda *_: False)
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
    for size in {1: (1, 23), 3: (23,)}[times] if INTERPRETED else (1, 9, 70):
        with monkeypatch.context() as patch:
            attention, query, memory = given(CONFIGS[name], 3, times, size, seed=size)
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
    from regard.attention.fused.inference_kernels import inference_attention

    torch.manual_seed(1)
    shapes = (2, 1, 3, 40), (2, 1, 11, 40), (2, 1, 11, 300)
    queries, keys, values = (torch.randn(shape, device=DEVICE) for shape in shapes)
    mask = torch.ones(2, 11, dtype=torch.bool, device=DEVICE)
    found = inference_attention(queries, keys, values, mask, scale=0.5)
    expected = torch.softmax(0.5 * queries @ keys.transpose(-2, -1), dim=-1) @ values
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


# -- exactly ----------------------------------------------------------------------------------------------------------

B, H, G, T, S, A, V = 3, 4, 2, 3, 19, 13, 7


def exactly(queries, keys, values, mask, vectors=None, scale=1.0):
    """The plain formulas, in float64."""
    queries, keys, values = (part.double() for part in (queries, keys, values))
    keys, values = (part.repeat_interleave(queries.shape[1] // part.shape[1], dim=1) for part in (keys, values))
    if vectors is None:
        e = scale * queries @ keys.transpose(-2, -1)
    else:
        e = torch.einsum("bhtsa,ha->bhts", torch.tanh(queries[:, :, :, None] + keys[:, :, None]), vectors.double())
    return masked_softmax(e, mask[:, None, None]) @ values


def drawn(kind=torch.float32):
    torch.manual_seed(2)
    sizes = (B, H, T, A), (B, G, S, A), (B, G, S, V)
    mask = torch.arange(S, device=DEVICE) < torch.tensor([S, 5, 0], device=DEVICE)[:, None]
    return *(torch.randn(size, device=DEVICE).to(kind) for size in sizes), mask, torch.randn(H, A, device=DEVICE)


@pytest.mark.gpu
@pytest.mark.parametrize("bent", [False, True], ids=["dot", "tanh"])
@pytest.mark.parametrize(("kind", "close"), [(torch.float32, 5e-6), (torch.bfloat16, 5e-3)], ids=["fp32", "bf16"])
def test_it_is_right(bent, kind, close):
    """All, some and nothing to look at; what stands under the padding is of no matter, however large."""
    from regard.attention.fused.inference_kernels import inference_attention

    queries, keys, values, mask, vectors = drawn(kind)
    given = (queries, keys, values, mask, vectors if bent else None)
    found, right = inference_attention(*given, scale=0.7), exactly(*given, scale=0.7)
    assert found.dtype == kind
    assert (found.double() - right).norm() <= close * right.norm()
    assert (found[2] == 0).all()
    poisoned = [part.masked_fill(~mask[:, None, :, None], 3e38) for part in (keys, values)]
    assert torch.equal(inference_attention(queries, *poisoned, *given[3:], scale=0.7), found)


SUMS = [0.0, 1e-30, 1e-3, 0.5, 3.0, 9.0, 10.5, 20.0, 45.0, 89.0, 1e4, 1e20, 1e38, 3e38]


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
@pytest.mark.parametrize("weight", [0.0, 30.0] if INTERPRETED else [0.0, 1e-30, 1.0, 30.0])
def test_any_finite_sums_are_right(kind, weight):
    """Sums that cancel, nearly cancel, saturate and overflow, each with each."""
    from regard.attention.fused.inference_kernels import inference_attention

    torch.manual_seed(1)
    units = torch.tensor(SUMS, device=DEVICE)[:, None] * torch.tensor([1.0, -1.0] * 4, device=DEVICE)
    queries, keys = (part[None, None].to(kind) for part in (units, torch.cat([-units, units, 0.3 - units])))
    values = torch.randn(1, 1, keys.shape[2], V, device=DEVICE).to(kind)
    mask, vectors = keys.new_ones(1, keys.shape[2], dtype=torch.bool), weight * torch.randn(1, 8, device=DEVICE)
    found, right = (
        inference_attention(queries, keys, values, mask, vectors),
        exactly(queries, keys, values, mask, vectors),
    )
    close = 2e-6 * (1 + float(vectors.abs().sum())) + (0 if kind == torch.float32 else 2.0**-8)
    assert (found.double() - right).abs().max() <= close * values.abs().max()


@pytest.mark.gpu
@pytest.mark.parametrize("bent", [False, True], ids=["dot", "tanh"])
@pytest.mark.parametrize("size", [1e-30, 30.0, 1e4, 1e30] if INTERPRETED else [1e-30, 1e-10, 30.0, 1e4, 1e18, 1e30])
def test_scores_of_any_size_are_right(size, bent):
    """From those that tell nothing to those that leave one place; values are as large."""
    from regard.attention.fused.inference_kernels import inference_attention

    queries, keys, values, mask, vectors = drawn()
    values = values * size
    given = (queries, keys, values, mask, vectors * size) if bent else (queries * size, keys, values, mask)
    found, right = inference_attention(*given), exactly(*given)
    assert found.isfinite().all()
    # Where scores are large, so is what rounding changes in them; until they are so large that one place is left.
    assert (found.double() - right).norm() <= {30.0: 1e-4, 1e4: 2e-2}.get(size, 1e-5) * right.norm()
