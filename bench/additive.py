"""Benchmark additive attention on a GPU: eager, torch.compile and fused, against the chip's peak tanh rate.

python bench/additive.py                 time, memory and error; the table of docs/performance.md
python bench/additive.py --sweep         the best tiles of each kernel, for TILES in attention/fused/launch.py
python bench/additive.py --kernels       how long each kernel takes
python bench/additive.py --long          sources of 8192 tokens, for every score
"""

import argparse
import datetime
import itertools
import platform
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import no_type_check

import torch
import triton
import triton.language as tl

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from regard.attention import Attention, build_attention, fused, scores
from regard.attention.fused import launch
from regard.attention.fused.launch import Tile
from regard.config import AttentionConfig
from regard.errors import ConfigError
from regard.masks import masked_softmax

Tensor = torch.Tensor
REPEATS = 10
SIZES = {"long": (16, 1024, 1024, 512, 512), "sentences": (80, 50, 50, 1000, 2000)}
"""B, T, S, A and V: a case of long sources, and one batch of Bahdanau et al. 2014."""
STEPS = {"one query, long": (16, 1, 1024, 512, 512), "one query, sentences": (80, 1, 50, 1000, 2000)}
KINDS = {"bfloat16": torch.bfloat16, "float32": torch.float32, "tf32": torch.float32}
"""tf32: float32 with matrix products in TensorFloat-32, as in `regard train`."""
TILES = {
    "scores": [(8, 512, 4), (16, 256, 4), (16, 512, 4), (8, 256, 4), (32, 512, 8), (16, 128, 4)],
    "scores of short sources": [(8, 64, 2), (16, 64, 4), (16, 128, 4), (8, 128, 4)],
    "scores of few": [(16, 128, 4), (8, 256, 4), (32, 64, 4), (16, 256, 8), (4, 512, 4)],
    "grad_keys": [(16, 128, 4), (32, 128, 4), (16, 64, 2), (16, 256, 4), (32, 256, 8), (8, 128, 4)],
    "grad_queries": [(16, 256, 4), (16, 128, 4), (8, 256, 4), (32, 256, 8)],
    "contexts": [(64, 256, 4), (128, 256, 8), (128, 128, 4), (64, 256, 8), (64, 128, 4)],
}
"""The first of each is the one in launch.py."""


# -- what is measured -------------------------------------------------------------------------------------------------


def plain(queries: Tensor, keys: Tensor, vectors: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Compute additive attention as written in the paper."""
    hidden = torch.tanh(queries[:, :, :, None] + keys[:, :, None])
    found = torch.nn.functional.linear(hidden, vectors.to(hidden.dtype)).squeeze(-1)
    return masked_softmax(found, mask[:, None, None]).to(values.dtype) @ values


def compilable(queries: Tensor, keys: Tensor, vectors: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """The same with a sum instead of a matrix product, which torch.compile fuses into one kernel."""
    hidden = torch.tanh(queries[:, :, :, None] + keys[:, :, None])
    found = (hidden * vectors.to(hidden.dtype)[:, None, None]).sum(dim=-1)
    return masked_softmax(found, mask[:, None, None]).to(values.dtype) @ values


def one_by_one(queries: Tensor, keys: Tensor, vectors: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Fused scores with materialised weights, as for one decoder step."""
    found = fused.additive_scores(queries, keys, vectors)
    return masked_softmax(found, mask[:, None, None]).to(values.dtype) @ values


def given(sizes: tuple[int, ...], kind: torch.dtype) -> list[Tensor]:
    batch, steps, size, units, width = sizes
    shapes = [(batch, 1, steps, units), (batch, 1, size, units), (1, units), (batch, 1, size, width)]
    torch.manual_seed(1)
    made = [torch.randn(shape, device="cuda").requires_grad_() for shape in shapes]
    made = [one if i == 2 else one.detach().to(kind).requires_grad_() for i, one in enumerate(made)]
    return [*made, torch.ones(batch, size, dtype=torch.bool, device="cuda")]


def milliseconds(work: Callable[[], object]) -> tuple[float, float]:
    """Return the median and spread of several runs, after a warm-up.

    There is no synchronisation between runs, as in training: launch overhead is hidden while the GPU is busy.
    """
    marks = []
    for _ in range(3 + REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        work()
        end.record()
        marks.append((start, end))
    torch.cuda.synchronize()
    took = [start.elapsed_time(end) for start, end in marks[3:]]
    return statistics.median(took), max(took) - min(took)


def mebibytes(work: Callable[[], object], inputs: list[Tensor]) -> float:
    """Return the peak memory, including inputs and outputs."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = work()
    peak = torch.cuda.max_memory_allocated() - before + sum(one.nbytes for one in inputs)
    del kept
    return peak / 2**20


def forward(function: Callable[..., Tensor], inputs: list[Tensor]) -> Tensor:
    with torch.no_grad():
        return function(*inputs)


def both(function: Callable[..., Tensor], inputs: list[Tensor]) -> tuple[Tensor, ...]:
    context = function(*inputs)
    return torch.autograd.grad(context, inputs[:4], torch.ones_like(context))


def error(function: Callable[..., Tensor], inputs: list[Tensor]) -> float:
    """Return the largest relative error of the context and the gradients of two rows, against float64."""
    few = [one[:2, :, :256] if one.dim() == 4 else one[:2, :256] if one.dtype == torch.bool else one for one in inputs]
    few = [one.detach().clone().requires_grad_(one.requires_grad) for one in few]
    exact = [one.detach().double().requires_grad_() if one.requires_grad else one for one in few]
    context, right = function(*few), plain(*exact)
    back = torch.randn_like(context)
    found = (context, *torch.autograd.grad(context, few[:4], back))
    wanted = (right, *torch.autograd.grad(right, exact[:4], back.double()))
    return max(float((a.double() - b).norm() / b.norm()) for a, b in zip(found, wanted, strict=True))


# -- the chip ---------------------------------------------------------------------------------------------------------


@triton.jit
@no_type_check
def many_tanh(OUT, STEPS: tl.constexpr, N: tl.constexpr):
    x = tl.arange(0, N).to(tl.float32) / N
    for _ in range(STEPS):
        x = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=r,r", [x], tl.float32, is_pure=True, pack=1)
    tl.store(OUT + tl.program_id(0) * N + tl.arange(0, N), x)


def tanh_rate() -> float:
    """Return the chip's peak rate of tanh per second."""
    programs, steps, size = torch.cuda.get_device_properties(0).multi_processor_count * 64, 512, 1024
    out = torch.empty(programs * size, device="cuda")
    took, _ = milliseconds(lambda: many_tanh[(programs,)](out, STEPS=steps, N=size, num_warps=4))
    return programs * steps * size / took * 1e3


def machine() -> str:
    chip = torch.cuda.get_device_properties(0)
    return (
        f"{datetime.date.today().isoformat()}, {chip.name}, {chip.multi_processor_count} SMs, "
        f"driver CUDA {torch.version.cuda}; torch {torch.__version__}, "
        f"triton {triton.__version__}, Python {platform.python_version()}; medians of {REPEATS} (spread)"
    )


# -- the tables -------------------------------------------------------------------------------------------------------


def row(name: str, case: str, kind: str, function: Callable[..., Tensor], inputs: list[Tensor]) -> None:
    cells = [name, case, kind]
    try:
        for work in (partial(forward, function, inputs), partial(both, function, inputs)):
            took, spread = milliseconds(work)
            cells += [f"{took:8.3f} ({spread:.2f})", f"{mebibytes(work, inputs):9,.0f}"]
        cells.append(f"{error(function, inputs):.0e}")
    except torch.OutOfMemoryError:
        cells += ["out of memory"]
    torch.cuda.empty_cache()
    print("| " + " | ".join(cells) + " |", flush=True)


HEADER = """
| version | case | type | forward, ms | MiB | forward + backward, ms | MiB | error |
|---|---|---|---|---|---|---|---|"""


def compare(compiled: bool) -> None:
    rate = tanh_rate()
    print(f"tanh: {rate / 1e12:.2f} T/s")
    for case, (batch, steps, size, units, width) in SIZES.items():
        alone = batch * steps * size * units / rate * 1e3
        print(f"{case}: B={batch} T={steps} S={size} A={units} V={width}: tanh alone {alone:.2f} ms")
    print(HEADER)
    for (case, sizes), (kind, made) in itertools.product({**SIZES, **STEPS}.items(), KINDS.items()):
        inputs = given(sizes, made)
        torch.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
        versions = {"eager": plain, "fused": one_by_one if sizes[1] == 1 else fused.additive_attention}
        if compiled and case == "long" and kind == "bfloat16":
            versions["torch.compile"] = torch.compile(compilable, dynamic=False)
        for name, function in versions.items():
            row(name, case, kind, function, inputs)
        moved = (sum(one.nbytes for one in inputs) + sizes[1] * inputs[3][:, :, 0].nbytes) / 2**20
        print(f"| inputs + outputs | {case} | {kind} | | {moved:9,.0f} | | {2 * moved:9,.0f} | |")


def sweep(kind: torch.dtype) -> None:
    """Time the whole operation with each tile size of each kernel, leaving the other kernels unchanged."""
    torch.use_deterministic_algorithms(False)
    for name, tiles in TILES.items():
        short, few = name == "scores of short sources", name == "scores of few"
        sizes = SIZES["sentences"] if short else STEPS["one query, long"] if few else SIZES["long"]
        inputs, usual = given(sizes, kind), launch.TILES[name]
        torch.use_deterministic_algorithms(name == "grad_queries", warn_only=True)
        function = one_by_one if few else fused.additive_attention
        work = partial(both if name.startswith("grad") else forward, function, inputs)
        found = []
        for tile in tiles:
            launch.TILES[name] = Tile(*tile)
            try:
                found.append((milliseconds(work)[0], tile))
            except Exception as problem:  # one that the chip has no room for
                print(f"{name} {tile}: {type(problem).__name__}")
        launch.TILES[name] = usual
        print(f"{name:24}", "  ".join(f"{tile}: {took:.3f} ms" for took, tile in sorted(found)), flush=True)
    torch.use_deterministic_algorithms(False)


def kernels(kind: torch.dtype) -> None:
    inputs = given(SIZES["long"], kind)
    both(fused.additive_attention, inputs)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        both(fused.additive_attention, inputs)
        torch.cuda.synchronize()
    print(seen.key_averages().table(sort_by="device_time_total", row_limit=20, max_name_column_width=60))


def one_step(look: Attention, kind: torch.dtype, size: int) -> None:
    states, query = (torch.randn(2, size, 512, device="cuda", requires_grad=True) for _ in range(2))
    mask = torch.ones(2, size, dtype=torch.bool, device="cuda")
    with torch.autocast("cuda", kind, enabled=kind != torch.float32):
        context = look(query, look.remember(states, mask), look=False).context
    context.float().square().mean().backward()


def long_sources(kind: torch.dtype, size: int = 8192) -> None:
    """Time one training step of each score on sources of 8192 tokens, B=2: self-attention and cross-attention."""
    print(f"{kind}, B=2, {size:,} tokens looking at {size:,}, width 512".removeprefix("torch."))
    print("| score | looks at | forward + backward, ms | MiB |\n|---|---|---|---|")
    for score, itself in itertools.product(scores, (False, True)):
        config = AttentionConfig(score, width=512, longest=size)
        try:
            look = build_attention(config, 512, 512, itself=itself, causal=itself).cuda()
        except ConfigError:
            continue
        work = partial(one_step, look, kind, size)
        peak = mebibytes(work, [])
        took, spread = milliseconds(work)
        cells = [score, "itself" if itself else "another", f"{took:.1f} ({spread:.1f})", f"{peak:,.0f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for flag in ("sweep", "kernels", "long", "no-compile", "float32"):
        parser.add_argument(f"--{flag}", action="store_true")
    asked = parser.parse_args()
    kind = torch.float32 if asked.float32 else torch.bfloat16
    if not torch.cuda.is_available():
        sys.exit("bench/additive.py needs an NVIDIA GPU, and torch finds none here.")
    print(machine())
    if asked.sweep:
        sweep(kind)
    if asked.kernels:
        kernels(kind)
    if asked.long:
        long_sources(kind)
    if not (asked.sweep or asked.kernels or asked.long):
        compare(not asked.no_compile)


if __name__ == "__main__":
    main()
