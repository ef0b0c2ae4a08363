"""The fused additive attention is the plain one, for any finite input; it holds nothing of B×T×S×A.

The laws are marked `gpu`: `make gpu-test` runs them there. On a CPU the first test runs them in Triton's interpreter.
"""

import importlib.util
import itertools
import math
import os
import re
import subprocess
import tempfile
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.attention import build_attention, fused, scores
from regard.config import AttentionConfig
from regard.errors import RegardError
from regard.masks import masked_softmax

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
SMALLEST = torch.finfo(torch.float32).tiny
"""Below it a GPU may take a number for zero."""
gpu = pytest.mark.gpu
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter: an overflow is meant
B, H, T, S, A, V = 3, 2, 11, 19, 13, 7
MASK = torch.arange(S) < torch.tensor([S, 5, 0])[:, None]
"""All, some and nothing to look at."""


def few(cases, *chosen):
    """Return all cases on a GPU; in the interpreter, which takes a thousand times as long, the chosen ones."""
    return [cases[i] for i in chosen] if INTERPRETED else cases


def test_the_laws_hold_in_the_interpreter(interpret):
    interpret(__file__)


@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
def test_a_cpu_runs_the_plain_version():
    assert not fused.usable(torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 3))


# -- counted work -----------------------------------------------------------------------------------------------------


def loops(program):
    """The innermost loops of a compiled kernel, each as its instructions."""
    places, found, instructions = {}, [], []
    for line in program.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line.strip()):
            places[label[1]] = len(instructions)
        elif one := re.search(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?(.*?);", line):
            instructions.append(one[1])
            back = re.search(r"BRA.*`\((\.L_x_\d+)\)", one[1])
            if back and back[1] in places:
                found.append((places[back[1]], len(instructions)))
    inner = [one for one in found if not any(one[0] <= two[0] and two[1] < one[1] for two in found)]
    return [instructions[start:end] for start, end in inner]


POINTERS = {"Q": "*bf16", "K": "*bf16", "MASK": "*u8"}
NUMBERS = ("T", "S", "TALL", "WIDE", "STEP", "ROW", "H", "first", "position")
ALIGNED = ("TALL", "WIDE", "STEP", "ROW")


def compiled(name, **settings):
    """Compile a kernel for an H200, which needs none, and take it to pieces."""
    import triton
    from triton.backends.compiler import GPUTarget

    from regard.attention.fused import additive_kernels, launch

    kernel, tile = getattr(additive_kernels, name), launch.TILES[name]
    kinds = {one: "i32" if one in NUMBERS else POINTERS.get(one, "*fp32") for one in kernel.arg_names}
    settings = {"A": 512, "BT" if name == "scores" else "BS": tile.rows, **settings}
    settings = {"BS" if name == "scores" else "BA": tile.columns, **settings}
    at = kernel.arg_names.index
    aligned = [one for one in kernel.arg_names if one in ALIGNED or (kinds[one] != "i32" and one not in settings)]
    source = triton.compiler.ASTSource(
        kernel,
        {one: "constexpr" if one in settings else kinds[one] for one in kernel.arg_names},
        {(at(one),): value for one, value in settings.items()},
        {(at(one),): [["tt.divisibility", 16]] for one in aligned},
    )
    binary = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": tile.warps}).asm["cubin"]
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        return subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed: pip install triton")
@pytest.mark.skipif(INTERPRETED, reason="this is the interpreter")
@pytest.mark.parametrize(
    ("name", "settings", "deep", "shared", "most"),
    [("scores", {"MASKED": True}, 4, [4, 2], 3.4), ("grad_keys", {"EXACT": False, "QUERIES": True}, 2, [2], 8.6)],
)
def test_a_unit_costs_few_instructions(name, settings, deep, shared, most):
    """A reciprocal for as many as share it, and nothing that waits: no barrier, no shared and no local memory."""
    from regard.attention.fused import launch

    found = [one for one in loops(compiled(name, **settings)) if "RCP" in str(one) and "EX2" not in str(one)]
    tile = launch.TILES[name]
    units = tile.rows * tile.columns * deep // (32 * tile.warps)
    assert sorted(units // sum("MUFU.RCP" in part for part in loop) for loop in found) == sorted(shared)
    for loop in found:
        assert len(loop) <= most * units
        assert not [part for part in loop if part.startswith(("BAR", "LDS", "STS", "LDL", "STL"))]


# -- the laws ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def device(monkeypatch):
    if not INTERPRETED and not torch.cuda.is_available():
        pytest.skip("no NVIDIA GPU here, and TRITON_INTERPRET is not set")
    from regard.attention.fused import launch

    if INTERPRETED:  # several tiles of little, and few programs
        small = {"scores of short sources": launch.Tile(8, 16, 4), "scores": launch.Tile(16, 32, 4)}
        small |= {"grad_keys": launch.Tile(16, 32, 4), "contexts": launch.Tile(16, 16, 4)}
        monkeypatch.setattr(launch, "TILES", {**launch.TILES, **small})
    return torch.device("cpu" if INTERPRETED else "cuda")


def plain_scores(queries, keys, vectors):
    return torch.einsum("bhtsa,ha->bhts", torch.tanh(queries[:, :, :, None] + keys[:, :, None]), vectors)


def plain_attention(queries, keys, vectors, values, mask, position=None):
    allowed = mask[:, None, None]
    if position is not None:
        steps = torch.arange(position, position + queries.shape[2], device=mask.device)
        allowed = allowed & (torch.arange(keys.shape[2], device=mask.device) <= steps[:, None])
    return masked_softmax(plain_scores(queries, keys, vectors), allowed) @ values


def inputs(device, kind=torch.float32, batch=B, heads=H, steps=T, size=S, units=A, width=V):
    torch.manual_seed(3)
    sizes = [(batch, heads, steps, units), (batch, heads, size, units), (heads, units), (batch, heads, size, width)]
    made = [torch.randn(one, device=device) for one in sizes]
    return [one if i == 2 else one.to(kind) for i, one in enumerate(made)]


def agree(function, plain, given, close):
    """Values and gradients are those of the plain version in float64."""
    ours = [one.clone().requires_grad_() for one in given]
    theirs = [one.double().requires_grad_() for one in given]
    found, right = function(*ours), plain(*theirs)
    assert (found.double() - right).norm() <= close * right.norm()
    back = torch.randn_like(found)
    pairs = zip(torch.autograd.grad(found, ours, back), torch.autograd.grad(right, theirs, back.double()), strict=True)
    for slope, right_slope in pairs:
        assert slope.isfinite().all()
        assert (slope.double() - right_slope).norm() <= close * right_slope.norm()


@gpu
@pytest.mark.parametrize(("kind", "close"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)], ids=["fp32", "bf16"])
@pytest.mark.parametrize("steps", [1, T])
def test_scores_are_the_plain_ones(device, steps, kind, close):
    agree(fused.additive_scores, plain_scores, inputs(device, kind, batch=1, steps=steps)[:3], close)


@gpu
@pytest.mark.parametrize(("kind", "close"), [(torch.float32, 2e-6), (torch.bfloat16, 1e-2)], ids=["fp32", "bf16"])
def test_attention_is_the_plain_one(device, kind, close):
    mask = MASK.to(device)
    agree(
        lambda *given: fused.additive_attention(*given, mask),
        lambda *given: plain_attention(*given, mask),
        inputs(device, kind, heads=H if kind == torch.float32 else 1),
        close,
    )


@gpu
@pytest.mark.parametrize(("precision", "close"), [("highest", 1e-6), ("high", 1e-4)])
def test_contexts_are_as_exact_as_products_are_asked_to_be(device, precision, close):
    given, mask = inputs(device, heads=1), MASK.to(device)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        found = fused.additive_attention(*given, mask)
    finally:
        torch.set_float32_matmul_precision(before)
    right = plain_attention(*(one.double() for one in given), mask)
    error = (found.double() - right).norm() / right.norm()
    assert error <= close
    if precision == "high":  # and no more exact than that: two parts are multiplied, not three
        assert error > 1e-6


@gpu
@pytest.mark.parametrize("kept", [0.0, float("inf")])
def test_attention_to_the_past_by_pieces_is_the_plain_one(device, monkeypatch, kept):
    from regard.attention.fused import additive

    monkeypatch.setattr(additive, "KEPT", kept)
    monkeypatch.setattr(additive, "ROOM", 0)
    monkeypatch.setattr(additive, "SHARE", 0)
    monkeypatch.setattr(additive, "PIECE", 4)
    mask = MASK[:2].to(device)
    agree(
        lambda *given: fused.additive_attention(*given, mask, 3),
        lambda *given: plain_attention(*given, mask, 3),
        inputs(device, batch=2, heads=1),
        2e-6,
    )


@gpu
def test_scores_that_are_kept_and_scores_that_are_made_again_give_the_same(device, monkeypatch):
    """And a second pass back, through the same graph, what the first gave."""
    from regard.attention.fused import additive

    given, mask = [one.requires_grad_() for one in inputs(device, batch=2, heads=1)], MASK[:2].to(device)
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    found = []
    for kept in (0.0, float("inf")):
        monkeypatch.setattr(additive, "KEPT", kept)
        context = fused.additive_attention(*given, mask)
        assert (context._base.grad_fn.saved_tensors[-1] is None) == (kept == 0)
        passes = [torch.autograd.grad(context.square().sum(), given, retain_graph=True) for _ in range(2)]
        found += [[context, *one] for one in passes]
    for other in found[1:]:
        assert all(map(torch.equal, found[0], other))


@gpu
def test_gradients_that_are_the_same_at_every_run(device, monkeypatch):
    given = inputs(device, batch=1, heads=1)[:3]
    if INTERPRETED:  # where torch itself need not be told, which would import its compiler
        monkeypatch.setattr(torch, "use_deterministic_algorithms", lambda mode: None)
        monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    torch.use_deterministic_algorithms(True)
    try:
        agree(fused.additive_scores, plain_scores, given, 1e-6)
    finally:
        torch.use_deterministic_algorithms(False)


HOSTILE = [0.0, 1e-30, 1e-3, 0.5, 3.0, 9.0, 10.5, 20.0, 21.0, 43.0, 45.0, 60.0, 89.0, 1e4, 1e20, 1e38, 3e38]


@gpu
@pytest.mark.parametrize("steps", [3, len(HOSTILE)])
@pytest.mark.parametrize("largest", [15.0, float("inf")])
def test_any_finite_input_is_right(device, steps, largest):
    """Sums that cancel, nearly cancel, saturate and overflow, each with each."""
    sizes = torch.tensor([one for one in HOSTILE if one < largest], device=device)[:, None]
    signs = torch.tensor([1.0, -1.0] * 8, device=device)
    queries, keys = (sizes * signs).flip(0)[:steps], torch.cat([-sizes * signs, sizes * signs, 0.3 - sizes * signs])
    vectors = torch.randn(1, 16, device=device)
    check_hostile(queries[None, None], keys[None, None], vectors)
    if largest == 15.0:
        check_hostile(queries[None, None], keys[None, None], vectors * 1e30)


@gpu
@pytest.mark.parametrize("weight", [1.0, 1e30])
def test_units_that_share_a_reciprocal_may_be_unlike(device, weight):
    """One saturated, its neighbour not; each size is a row, hence a tile, of its own."""
    sizes = few([9.0, 15.0, 17.9, 18.1, 22.0, 25.0, 30.0, 44.0, 50.0], 0, 2, 3, 5, 8)
    sizes = torch.tensor(sizes, device=device)[:, None, None, None]
    units = sizes * torch.tensor([1.0, 0.01] * 8, device=device)
    check_hostile(units.expand(-1, -1, 8, -1), units.expand(-1, -1, 2, -1), weight * torch.randn(1, 16, device=device))


@gpu
@pytest.mark.parametrize(
    ("largest", "steps", "kept"),
    few([*itertools.product([15.0, float("inf")], [3, len(HOSTILE)], [0.0, float("inf")])], 1, 2, 4, 7),
)
def test_attention_to_any_finite_input_is_right(device, monkeypatch, steps, largest, kept):
    """Sums that cancel, saturate and overflow, each with each; contexts and all gradients, and nothing of padding."""
    from regard.attention.fused import additive

    monkeypatch.setattr(additive, "KEPT", kept)
    torch.manual_seed(3)
    sizes = torch.tensor([one for one in HOSTILE if one < largest], device=device)[:, None]
    signs = torch.tensor([1.0, -1.0] * 8, device=device)
    queries, keys = (sizes * signs).flip(0)[:steps], torch.cat([-sizes * signs, sizes * signs, 0.3 - sizes * signs])
    vectors, values = torch.randn(1, 16, device=device), torch.randn(len(keys), V, device=device)
    check_hostile_attention(queries[None, None], keys[None, None], vectors, values[None, None])


@gpu
@pytest.mark.parametrize(
    ("weight", "size"), few([*itertools.product([0.0, 1e-40, 1e-30, 10.0], [1e-30, 1.0, 1e30])], 1, 5, 6, 9, 11)
)
def test_attention_with_any_finite_weights_to_any_finite_values_is_right(device, weight, size):
    queries, keys, vectors, values = inputs(device, batch=1, heads=1)
    check_hostile_attention(queries, keys, vectors * weight, values * size)


@gpu
@pytest.mark.parametrize("weight", few([1e4, 1e30, 3e37], 0, 2))
def test_attention_whose_scores_leave_one_place_stays_finite(device, weight):
    """Which place that is may be a matter of rounding; what is seen is one of the values, or lies between them."""
    given = [one.requires_grad_() for one in inputs(device, batch=1, heads=1)]
    context = fused.additive_attention(given[0], given[1], given[2] * weight, given[3], MASK[:1].to(device))
    assert context.isfinite().all()
    assert (context <= given[3].amax(dim=2, keepdim=True) * (1 + 1e-6) + 1e-6).all()
    assert (context >= given[3].amin(dim=2, keepdim=True) * (1 + 1e-6) - 1e-6).all()
    assert all(slope.isfinite().all() for slope in torch.autograd.grad(context.sum() / weight, given))


@gpu
@pytest.mark.parametrize("weight", few([1.0, 1e4, 1e9, 1e30], 0, 3))
def test_keys_that_are_alike_share_a_look_however_large_scores_are(device, weight):
    queries, keys, vectors, values = inputs(device, batch=1, heads=1)
    given = [queries, keys[:, :, :1].expand_as(keys), vectors * weight, values.requires_grad_()]
    context = fused.additive_attention(*given, torch.ones(1, keys.shape[2], dtype=torch.bool, device=device))
    torch.testing.assert_close(context, values.mean(dim=2, keepdim=True).expand_as(context), rtol=1e-5, atol=1e-6)
    (back,) = torch.autograd.grad(context.sum(), values)
    torch.testing.assert_close(back, torch.full_like(back, queries.shape[2] / keys.shape[2]), rtol=1e-5, atol=0)


def check_hostile_attention(queries, keys, vectors, values):
    """Right to a hundred thousandth of what there is to be seen, and gradients of what could be learned from it."""
    mask = torch.arange(keys.shape[2], device=keys.device)[None] < keys.shape[2] - 2
    given = (queries, keys, vectors, values)
    ours, theirs = [one.clone().requires_grad_() for one in given], [one.double().requires_grad_() for one in given]
    found, right = fused.additive_attention(*ours, mask), plain_attention(*theirs, mask)
    seen, unit = values.double().abs().max(), 1 + vectors.double().abs().sum()
    assert (found - right).abs().max() <= 1e-6 * unit * seen
    back = torch.rand_like(found) - 0.5
    slopes = torch.autograd.grad(found, ours, back)
    right_slopes = torch.autograd.grad(right, theirs, back.double())
    learned = back.double().abs().sum()
    most = (learned * seen * vectors.double().abs().max(),) * 2 + (learned * seen, learned)
    for slope, right_slope, bound in zip(slopes, right_slopes, most, strict=True):
        assert slope.isfinite().all()
        assert (slope - right_slope).abs().max() <= 1e-6 * unit * bound + SMALLEST
    assert (slopes[1][:, :, -2:] == 0).all()
    assert (slopes[3][:, :, -2:] == 0).all()


@gpu
@pytest.mark.parametrize("signs", [(-1, -1), (1, -1), (-1, 1)])
def test_exponentials_that_are_small_are_no_less_right(device, signs):
    """Small ones times small ones, and small ones times large ones."""
    sizes = few([5.0, 10.0, 14.0, 17.0, 17.6, 25.0, 31.0, 50.0], 0, 3, 4, 7)
    sizes = torch.tensor(sizes, device=device)[:, None, None, None]
    units = sizes + torch.linspace(-0.4, 0.4, 16, device=device)
    queries, keys = signs[0] * units.expand(-1, -1, 8, -1), signs[1] * (units + 0.3).expand(-1, -1, 2, -1)
    check_hostile(queries, keys, torch.randn(1, 16, device=device))


def check_scores(queries, keys, vectors):
    """Right to 1e-6 of what the weights of their head sum up to."""
    found = fused.additive_scores(queries, keys, vectors)
    right = plain_scores(queries.double(), keys.double(), vectors.double())
    sums = vectors.double().abs().sum(dim=1)[None, :, None, None]
    assert ((found - right).abs() <= 1e-6 * sums + 1e-44).all()


def check_hostile(queries, keys, vectors):
    ours = [one.clone().requires_grad_() for one in (queries, keys, vectors)]
    theirs = [one.double().requires_grad_() for one in (queries, keys, vectors)]
    found, right = fused.additive_scores(*ours), plain_scores(*theirs)
    assert (found - right).abs().max() <= 1e-6 * vectors.abs().sum()
    back = torch.rand_like(found) - 0.5
    pairs = zip(torch.autograd.grad(found, ours, back), torch.autograd.grad(right, theirs, back.double()), strict=True)
    for i, (slope, right_slope) in enumerate(pairs):
        most = back.abs().sum() * (1.0 if i == 2 else vectors.abs().max())
        assert (slope - right_slope).abs().max() <= 1e-6 * most


def alike(weight):
    return [weight * sign for sign in (1.0, -1.0, -1.0, 1.0, 0.9, -0.7)]


WEIGHTS = {
    "huge": alike(1e30),
    "the largest": [3e38, -3e37, 1e30, 1e20, 3.0],
    "tiny": alike(1e-30),
    "subnormal": alike(1e-40),
    "the smallest": alike(2.0**-149),
    "none": [0.0] * 6,
    "one none": [0.3, -0.2, 0.0, 0.5, -0.4, 0.1],
    "none but one": [0.0] * 61 + [-0.7],
    "hardly any but one": [2.0**-33, -(2.0**-34)] * 30 + [-0.7],
    "small but many": [2.0**-31, -(2.0**-30)] * 30 + [2.0**-20, 1.0],
    "all sizes": [(-10.0) ** -i for i in range(40)],
    "one for all": [1.0] * 17,
}


@gpu
@pytest.mark.parametrize("name", WEIGHTS)
def test_any_finite_weights_are_right(device, name):
    vectors = torch.tensor([WEIGHTS[name]], device=device)
    torch.manual_seed(3)
    for size in few([1.0, 4.0, 9.0], 0, 2):
        queries, keys = (size * torch.randn(1, 1, steps, vectors.shape[1], device=device) for steps in (8, 3))
        check_scores(queries, keys, vectors)


@gpu
def test_a_key_is_of_no_matter_where_units_weigh_nothing(device):
    given = inputs(device, batch=1, heads=1, steps=8)[:3]
    given[1][..., 3:6] = torch.tensor([3e38, -3e38, 60.0], device=device)
    given[2][:, 3:6] = 0.0
    check_hostile(*given)


@gpu
def test_every_head_has_weights_of_its_own(device):
    """Also in a chunk that begins with any of them."""
    from regard.attention.fused import launch

    queries, keys, vectors = inputs(device, batch=2, heads=3, steps=8, size=3, units=16)[:3]
    vectors *= torch.tensor([1e-20, 1.0, 1e20], device=device)[:, None]
    check_scores(queries, keys, vectors)
    whole = fused.additive_scores(queries, keys, vectors).flatten(0, 1)
    for first in (1, 5):
        chunk = launch.Pairs(queries.flatten(0, 1)[first:], keys.flatten(0, 1)[first:], vectors, first)
        found = torch.empty_like(whole[first:])
        launch.score(launch.prepare(chunk), found)
        assert torch.equal(found, whole[first:])


# -- which way --------------------------------------------------------------------------------------------------------


WAYS = {"fours": (-1.0, -1.0), "pairs": (-1.0, 1.0), "exactly": (1.0, 1.0)}
"""Whether a tile is made to seem to hold more than two may share, and than four may."""


def by_every_way(queries, keys, vectors):
    """Scores as they come, and made in each of the three ways, right or not."""
    from regard.attention.fused import launch

    prepared = launch.prepare(launch.Pairs(queries[:, 0], keys[:, 0], vectors))
    found = []
    for way in (None, *WAYS.values()):
        tops = prepared.top_keys.clone()
        if way is not None:
            tops[1:] = float("inf") * torch.tensor(way, device=tops.device)[:, None, None]
        scores = queries.new_empty(len(queries), queries.shape[2], keys.shape[2])
        launch.score(prepared._replace(top_keys=tops), scores)
        found.append(scores)
    return found[0], dict(zip(WAYS, found[1:], strict=True))


BORDERS = [
    # units, bits of their queries and of their keys; the way up to there, and the way after
    ([0, 1, 2, 3], 15.0, 15.25, "fours", "pairs"),
    ([4, 5, 6, 7], 12.0, 10.25, "fours", "pairs"),
    ([0], 60.0, 41.0, "fours", "exactly"),
    ([0], -60.0, -41.0, "fours", "exactly"),
    ([5], 60.0, -33.0, "fours", "exactly"),
    ([0, 1], 50.0, 51.0, "pairs", "exactly"),
    ([4, 5, 6], 53.0, 40.0, "pairs", "exactly"),
    ([1, 2, 3], 55.0, -46.0, "pairs", "exactly"),
]


@gpu
@pytest.mark.parametrize("beyond", [False, True], ids=["within", "beyond"])
def test_each_way_is_taken_up_to_its_border(device, beyond):
    """A border is a row, hence a tile, of its own: a twentieth of a bit off for each unit."""
    torch.manual_seed(3)
    queries, keys = (0.2 * torch.rand(len(BORDERS), 1, steps, 16, device=device) - 0.1 for steps in (8, 5))
    vectors = torch.tensor([[2.0, -2, -2, 2, 2**-7, 2**-7, -(2**-7), 2**-7] + [0.7, -0.3] * 4], device=device)
    bit = math.log(2) / 2
    for i, (units, query, key, *_) in enumerate(BORDERS):
        queries[i, ..., units] = bit * query
        keys[i, ..., units] = bit * (key + math.copysign(0.05, key) * (1 if beyond else -1))
    found, ways = by_every_way(queries, keys, vectors)
    right = plain_scores(queries.double(), keys.double(), vectors.double())[:, 0]
    for i, border in enumerate(BORDERS):
        assert [way for way in ways if torch.equal(found[i], ways[way][i])] == [border[3 + beyond]]
        assert (found[i] - right[i]).abs().max() <= 1e-6 * vectors.abs().sum()


@gpu
@pytest.mark.parametrize(("size", "way"), [(1.0, "fours"), (2.0, "fours"), (4.0, "pairs")])
def test_usual_sizes_take_the_fast_ways_and_are_right_to_a_millionth(device, size, way):
    queries, keys, vectors, _ = inputs(device, batch=1, heads=1, steps=8, size=16, units=128)
    found, ways = by_every_way(size * queries, size * keys, vectors)
    assert torch.equal(found, ways[way])
    right = plain_scores(size * queries.double(), size * keys.double(), vectors.double())[:, 0]
    assert (found - right).norm() <= 1e-6 * right.norm()


# -- attention --------------------------------------------------------------------------------------------------------


@gpu
def test_what_is_padding_changes_nothing_and_learns_nothing(device):
    given, mask = inputs(device, heads=1), MASK.to(device)
    poisoned = [one.clone() for one in given]
    for i in (1, 3):
        poisoned[i].masked_fill_(~mask[:, None, :, None], 3.0)
    found = []
    for one in (given, poisoned):
        ours = [part.clone().requires_grad_() for part in one]
        context = fused.additive_attention(*ours, mask)
        grads = torch.autograd.grad(context.square().sum(), ours)
        assert (grads[1].masked_select(~mask[:, None, :, None]) == 0).all()
        assert (grads[3].masked_select(~mask[:, None, :, None]) == 0).all()
        found.append(context)
    assert torch.equal(*found)
    assert (found[0][2] == 0).all()


@gpu
@pytest.mark.parametrize(("score", "heads"), [("additive", 1), ("additive", 4), ("concat", 4), ("tanh", 4)])
def test_mechanisms_look_the_same(device, score, heads):
    torch.manual_seed(1)
    heads = heads // 2 if INTERPRETED and heads > 1 else heads
    config = AttentionConfig(
        score, heads=heads, groups=-(-heads // 2), width=A, temperature=1.5, learn_temperature=heads > 1
    )
    look = build_attention(config, 8, 8).to(device)
    states, query, mask = (
        torch.randn(2, 9, 8, device=device),
        torch.randn(2, 8 if INTERPRETED else 10, 8, device=device),
        MASK[:2, :9].to(device),
    )
    right = look.double()(query.double(), look.remember(states.double(), mask))
    memory = look.float().remember(states, mask)
    seen, looked = look(query, memory, look=False), look(query[:, :2], memory)
    assert seen.weights is None
    torch.testing.assert_close(seen.context.double(), right.context, atol=1e-5, rtol=0)
    torch.testing.assert_close(looked.weights.double(), right.weights[:, :2], atol=1e-5, rtol=0)


@gpu
def test_mixed_precision_is_the_plain_version_but_for_rounding(device):
    torch.manual_seed(1)
    look = build_attention(AttentionConfig("additive", width=A), 8, 8).to(device)
    states, query = torch.randn(2, 9, 8, device=device), torch.randn(2, 10, 8, device=device)
    found = []
    for kind in (torch.float64, torch.float32):
        given = [one.detach().to(kind).requires_grad_() for one in (states, query)]
        look.to(kind).zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=kind == torch.float32):
            context = look(given[1], look.remember(given[0], MASK[:2, :9].to(device)), look=False).context
        context.square().sum().backward()
        found.append([one.double() for one in (context, *(one.grad for one in (*given, *look.parameters())))])
    for right, ours in zip(*found, strict=True):
        assert (right - ours).norm() <= 2e-2 * right.norm()


@gpu
def test_gradients_of_gradients_are_refused(device):
    given = [one.requires_grad_() for one in inputs(device, batch=1, heads=1, steps=1, size=3)[:3]]
    with pytest.raises(RegardError) as caught:
        torch.autograd.grad(fused.additive_scores(*given).sum(), given, create_graph=True)
    assert str(caught.value) == (
        "The fused additive attention has no second derivative, as create_graph=True needs: compute in float64, which "
        "uses the plain version."
    )


class Largest(TorchDispatchMode):
    """Watches how many bytes the largest tensor holds."""

    held = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else [found]:
            if isinstance(one, torch.Tensor):
                self.held = max(self.held, one.nbytes)
        return found


@gpu
def test_nothing_large_is_ever_held(device):
    steps, units = (17, 32) if INTERPRETED else (33, 64)
    given = [one.requires_grad_() for one in inputs(device, batch=1, heads=1, steps=steps, size=35, units=units)]
    mask = torch.ones(1, 35, dtype=torch.bool, device=device)
    with Largest() as largest:
        torch.autograd.grad(fused.additive_attention(*given, mask).sum(), given)
    assert largest.held < steps * 35 * units * 4 / 8


@gpu
@pytest.mark.skipif(INTERPRETED, reason="as large as it must be")
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16], ids=["fp32", "bf16"])
def test_memory_is_at_most_twice_that_of_inputs_and_outputs(device, kind):
    given = [one.requires_grad_() for one in inputs(device, kind, 16, 1, 1024, 1024, 512, 512)]
    mask = torch.ones(16, 1024, dtype=torch.bool, device=device)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    held = sum(one.numel() * one.element_size() for one in given)
    context = fused.additive_attention(*given, mask)
    assert held + torch.cuda.max_memory_allocated() - before <= 2 * (held + context.nbytes)
    torch.autograd.grad(context, given, context.detach())
    assert held + torch.cuda.max_memory_allocated() - before <= 2 * (2 * held + 2 * context.nbytes)


@gpu
@pytest.mark.skipif(INTERPRETED, reason="as large as it must be")
@pytest.mark.parametrize("score", [*scores])
@pytest.mark.parametrize("itself", [False, True], ids=["source", "itself"])
def test_long_sources_train_with_every_score(device, score, itself):
    if itself and not scores[score].of_itself:
        pytest.skip("has no meaning where a sequence looks at itself")
    size = 8192
    look = build_attention(AttentionConfig(score, width=512, longest=size), 512, 512, itself=itself, causal=itself).to(
        device
    )
    states, query = (torch.randn(2, size, 512, device=device, requires_grad=True) for _ in range(2))
    mask = torch.ones(2, size, dtype=torch.bool, device=device)
    with torch.autocast("cuda", torch.bfloat16):
        seen = look(query, look.remember(states, mask), look=False)
    seen.context.float().square().mean().backward()
    assert all(one.grad.isfinite().all() for one in (states, query, *look.parameters()) if one.grad is not None)
    assert torch.cuda.max_memory_allocated() < 32 * 2**30
