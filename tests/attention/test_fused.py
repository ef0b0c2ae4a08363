"""The fused additive attention is the plain one, for any finite input; it holds nothing of B×T×S×A.

The laws are marked `gpu`: `make gpu-test` runs them there. On a CPU the first test runs them in Triton's interpreter.
"""

import importlib.util
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
gpu = pytest.mark.gpu
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # numpy's, in the interpreter: an overflow is meant
B, H, T, S, A, V = 3, 2, 11, 19, 13, 7
MASK = torch.arange(S) < torch.tensor([S, 5, 0])[:, None]
"""All, some and nothing to look at."""


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

    from regard.attention.fused import kernels, launch

    kernel, tile = getattr(kernels, name), launch.TILES[name]
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
    ("name", "settings", "most"),
    [("scores", {"MASKED": True}, 4.0), ("grad_keys", {"EXACT": False, "QUERIES": True}, 8.0)],
)
def test_a_unit_costs_few_instructions(name, settings, most):
    """Half a reciprocal for each, and nothing that waits: no barrier, no shared and no local memory."""
    program = compiled(name, **settings)
    (loop,) = [one for one in loops(program) if any("RCP" in part for part in one) and "EX2" not in str(one)]
    units = 2 * sum("MUFU.RCP" in part for part in loop)
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
        monkeypatch.setattr(launch, "TILES", {**launch.TILES, **small, "grad_keys": launch.Tile(16, 32, 4)})
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
        inputs(device, kind),
        close,
    )


@gpu
def test_attention_to_the_past_by_pieces_is_the_plain_one(device, monkeypatch):
    from regard.attention.fused import additive

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
def test_gradients_that_are_the_same_at_every_run(device):
    given = inputs(device, batch=1, heads=1)[:3]
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
    sizes = torch.tensor([9.0, 15.0, 17.9, 18.1, 22.0, 25.0, 30.0, 44.0, 50.0], device=device)[:, None, None, None]
    units = sizes * torch.tensor([1.0, 0.01] * 8, device=device)
    check_hostile(units.expand(-1, -1, 8, -1), units.expand(-1, -1, 2, -1), weight * torch.randn(1, 16, device=device))


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
    config = AttentionConfig(
        score, heads=heads, groups=min(heads, 2), width=A, temperature=1.5, learn_temperature=heads > 1
    )
    look = build_attention(config, 8, 8).to(device)
    states, query, mask = (
        torch.randn(2, 9, 8, device=device),
        torch.randn(2, 10, 8, device=device),
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
        "The fused additive attention has no second derivative, and a backward pass with create_graph=True asks for "
        "one: compute in float64, which takes the plain version."
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
    given = [one.requires_grad_() for one in inputs(device, batch=1, heads=1, steps=33, size=35, units=64)]
    mask = torch.ones(1, 35, dtype=torch.bool, device=device)
    with Largest() as largest:
        torch.autograd.grad(fused.additive_attention(*given, mask).sum(), given)
    assert largest.held < 33 * 35 * 64 * 4 / 8


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
