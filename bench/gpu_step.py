"""Benchmark one training step of a GRU decoder with additive attention, forward and backward, against baselines.

    python bench/gpu_step.py            # the two cases of docs/performance.md, on a GPU, in bfloat16
    python bench/gpu_step.py --kernels  # how long each kernel of the captured step takes, and how often it runs
    python bench/gpu_step.py --sweep    # the best tiles of a step's kernels, for TILES in attention/fused/launch.py
    python bench/gpu_step.py --loss     # the kernel of the loss beside torch's operations

No encoder, no output layer over the vocabulary, no optimiser: T steps of the decoder over S states, its projections and
its readout, and the gradient of all of it. "regard" is the decoder of the preset bahdanau2014, captured as a CUDA graph
as training captures it, and eager. "plain" is the same written in PyTorch, step by step, eager and captured. "LSTM" is
cuDNN's of the same width over the same steps, without attention: what a recurrence costs at the least.
Numbers are medians over --repeats, in milliseconds, ± half the way from the quickest to the slowest tenth. "difference"
is how far the gradients of regard's decoder, in float32, are from those that plain operations and autograd make.
"""

import argparse
import contextlib
import statistics
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from peers import machine, table, write_result
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from regard import batched_weight_gradients, devices
from regard.attention import fused
from regard.config_io import override
from regard.layers import rnn_gates
from regard.models import recurrent_decoder
from regard.models.build import build_model
from regard.presets import preset

Step = Callable[[], object]
SWEPT = {
    "fits": [(1, 2048, 4), (2, 2048, 2), (2, 2048, 4), (2, 2048, 8), (4, 2048, 4), (4, 2048, 8), (4, 512, 4)],
    "see": [(64, 32, 2), (64, 64, 2), (64, 64, 4), (64, 128, 4), (64, 128, 8), (64, 256, 8)],
    "ask_back": [(64, 32, 2), (64, 64, 2), (64, 64, 4), (64, 128, 4), (64, 128, 8), (64, 256, 8)],
}
WIDE = [(128, 1), (128, 2), (256, 2), (256, 4), (512, 4)]
"""Units and warps of a program of the gates."""


@dataclass(frozen=True)
class Case:
    """Sizes: sentences, target steps, source steps, width."""

    batch: int
    target: int
    source: int
    width: int

    def __str__(self) -> str:
        return f"B={self.batch} T={self.target} S={self.source} H={self.width}"


CASES = (Case(80, 50, 50, 1000), Case(256, 30, 30, 512))


class Plain(nn.Module):
    """Bahdanau's decoder as one would write it down."""

    def __init__(self, width: int, states: int) -> None:
        super().__init__()
        self.U, self.W = nn.Linear(states, width, bias=False), nn.Linear(width, width)
        self.v = nn.Linear(width, 1, bias=False)
        self.cell = nn.GRUCell(width + states, width)
        self.readout = nn.Linear(2 * width + states, width)

    def forward(self, inputs: Tensor, memory: Tensor) -> Tensor:
        """Attend and step for each target position, then apply the readout to all steps."""
        keys, hidden = self.U(memory), inputs.new_zeros(inputs.shape[0], self.W.in_features)
        steps = []
        for entering in inputs.unbind(1):
            scores = self.v(torch.tanh(self.W(hidden)[:, None] + keys))[..., 0]
            context = (scores.softmax(-1)[:, None].to(memory.dtype) @ memory)[:, 0]
            hidden = self.cell(torch.cat((entering, context), -1), hidden.to(inputs.dtype))
            steps.append(torch.cat((entering, context, hidden), -1))
        made: Tensor = torch.tanh(self.readout(torch.stack(steps, 1)))
        return made


def autocast(device: str, precision: str) -> contextlib.AbstractContextManager[Any]:
    """Return what training runs in."""
    return torch.autocast(device, torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()


def ours(case: Case, device: str, precision: str, states: int) -> Step:
    """Make the step of regard's own decoder; it returns the gradients of what the encoder yields and of all weights."""
    torch.manual_seed(1)
    sizes = [f"model.encoder.width={states * case.width // 2}", f"model.decoder.width={case.width}"]
    sizes += [f"model.attention.width={case.width}", f"model.embedding={case.width}"]
    sizes += [f"model.decoder.readout_width={case.width // 2}"]
    config = override(preset("bahdanau2014"), [*sizes, "model.dropout=0"])
    model = build_model(config.model, 1000, 1000).to(device).train()
    source = torch.randint(4, 1000, (case.batch, case.source), device=device)
    tokens = torch.randint(4, 1000, (case.batch, case.target), device=device)
    with torch.no_grad(), autocast(device, precision):
        encoded = model.encode(source, torch.ones_like(source, dtype=torch.bool))
    encoded = encoded._replace(states=encoded.states.detach().requires_grad_())

    learned: dict[str, Tensor] = {
        name: weight for name, weight in model.decoder.named_parameters() if not name.startswith("output.")
    }
    learned["states"] = encoded.states

    def step() -> dict[str, Tensor | None]:
        model.zero_grad(set_to_none=True)
        encoded.states.grad = None
        with autocast(device, precision):
            features = model.decoder.teach(tokens, encoded, look=False).features
        torch.autograd.backward(features.float().square().mean())
        return {name: tensor.grad for name, tensor in learned.items()}

    return step


@contextlib.contextmanager
def plainly() -> Iterator[None]:
    """Make regard use plain operations with autograd instead of its own kernels."""
    modules = (batched_weight_gradients, fused, rnn_gates)
    usual, looping = devices.runs_kernels, batched_weight_gradients.decoder_loop
    try:
        for module in modules:
            module.runs_kernels = lambda device: False  # type: ignore[attr-defined]
        recurrent_decoder.decoder_loop = lambda steps, *memory: contextlib.nullcontext()  # type: ignore[assignment, attr-defined]
        yield
    finally:
        for module in modules:
            module.runs_kernels = usual  # type: ignore[attr-defined]
        recurrent_decoder.decoder_loop = looping  # type: ignore[attr-defined]


def difference(case: Case, device: str, states: int) -> str:
    """Compare the gradients of regard's decoder with those of plain operations."""
    step: Any = ours(case, device, "float32", states)
    found = step()
    with plainly():
        right = step()
    apart = {
        name: ((one - right[name]).abs().max() / right[name].abs().max()).item()
        for name, one in found.items()
        if one is not None
    }
    worst = max(apart, key=lambda name: apart[name])
    return f"{apart[worst]:.1e} of the largest, in {worst} (of {len(apart)})"


def plain(case: Case, device: str, precision: str, states: int) -> Step:
    """Make the step of the plain decoder."""
    model = Plain(case.width, states * case.width).to(device)
    inputs = torch.randn(case.batch, case.target, case.width, device=device, requires_grad=True)
    memory = torch.randn(case.batch, case.source, states * case.width, device=device, requires_grad=True)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        inputs.grad = memory.grad = None
        with autocast(device, precision):
            made = model(inputs, memory)
        torch.autograd.backward(made.float().square().mean())

    return step


def captured(step: Step) -> Step:
    """Capture a step as a CUDA graph."""
    aside = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def recurrence(case: Case, device: str, precision: str) -> Step:
    """Make the step of an LSTM over as many steps, without attention."""
    kind = torch.bfloat16 if precision == "bfloat16" else torch.float32
    model = nn.LSTM(case.width, case.width, batch_first=True).to(device, kind)
    inputs = torch.randn(case.batch, case.target, case.width, device=device, dtype=kind, requires_grad=True)

    def step() -> None:
        model.zero_grad(set_to_none=True)
        inputs.grad = None
        torch.autograd.backward(model(inputs)[0].float().square().mean())

    return step


def milliseconds(step: Step, device: str, repeats: int) -> list[float]:
    """Time a step again and again, after a few that warm it up."""
    found = []
    for number in range(repeats + 5):
        _wait(device)
        began = time.perf_counter()
        step()
        _wait(device)
        if number >= 5:
            found.append(1000 * (time.perf_counter() - began))
    return sorted(found)


def _wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def arithmetic(case: Case, states: int) -> float:
    """Count what the plain decoder multiplies and adds, forward and backward, in GFLOP."""
    H, C = case.width, states * case.width
    token = 2 * (3 * H * (H + C) + 3 * H * H + H * H + H * (2 * H + C)) + case.source * (2 * H + 2 * C)
    return 3 * case.batch * (case.target * token + case.source * 2 * H * C) / 1e9


def measure(case: Case, given: argparse.Namespace) -> list[list[str]]:
    """Time all versions of a case; failures are reported and the rest continues."""
    device, precision, states = given.device, given.precision, given.states
    steps: dict[str, Callable[[], Step]] = {
        "regard, eager": lambda: ours(case, device, precision, states),
        "plain, eager": lambda: plain(case, device, precision, states),
        "LSTM without attention": lambda: recurrence(case, device, precision),
    }
    if device == "cuda":
        graphs: dict[str, Callable[[], Step]] = {
            "regard, CUDA graph": lambda: captured(ours(case, device, precision, states)),
            "plain, CUDA graph": lambda: captured(plain(case, device, precision, states)),
        }
        steps = {**graphs, **steps}
    rows = []
    for name, make in steps.items():
        if device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            found = milliseconds(make(), device, given.repeats)
        except Exception as problem:
            rows.append([str(case), name, _said(problem), ""])
        else:
            memory = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else 0
            rows.append([str(case), name, _spread(found), f"{memory:,.0f}"])
        print(*rows[-1], flush=True)
    try:
        rows.append([str(case), f"difference: {difference(case, device, states)}", "", ""])
    except Exception as problem:
        rows.append([str(case), f"difference: {_said(problem)}", "", ""])
    print(*rows[-1], flush=True)
    rows.append([str(case), f"arithmetic: {arithmetic(case, states):,.0f} GFLOP", "", ""])
    return rows


def _spread(found: list[float]) -> str:
    """Write the median of what is in order, and half the way from the quickest to the slowest tenth."""
    tenth = max(1, len(found) // 10)
    half = (statistics.fmean(found[-tenth:]) - statistics.fmean(found[:tenth])) / 2
    return f"{statistics.median(found):.2f} ± {half:.2f}"


def _said(problem: Exception) -> str:
    """Print the traceback of an error, and return the error in one line."""
    traceback.print_exception(problem)
    return f"{type(problem).__name__}: {str(problem).splitlines()[0] if str(problem) else ''}"[:100]


def kernels(case: Case, given: argparse.Namespace) -> None:
    """Print how long each kernel of the captured step takes, and how often it runs."""
    replay = captured(ours(case, given.device, given.precision, given.states))
    replay()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        replay()
        _wait(given.device)
    found = sorted(seen.key_averages(), key=lambda one: -one.device_time_total)
    print(f"{case}: {sum(one.count for one in found)} kernels, {sum(one.device_time_total for one in found):,.0f} µs")
    for one in found[:30]:
        each = one.device_time_total / one.count
        print(f"{one.device_time_total:10,.0f} µs {one.count:6} × {each:6.2f}  {one.key[:90]}")


def loss(given: argparse.Namespace) -> None:
    """Time the loss of logits and its gradient, which overwrites the logits."""
    from regard.training.fused_loss import LossOptions, plain_rows
    from regard.training.loss_kernels import rows

    logits = torch.randn(16000, 10000, device=given.device)
    targets = torch.randint(10000, (16000,), device=given.device)
    lines = []
    for name, wanted in {
        "cross-entropy, label smoothing": LossOptions(0.1, 0.0),
        "with R-Drop": LossOptions(0.1, 5.0),
    }.items():
        for how, work in {"torch's operations": plain_rows, "kernel": rows}.items():
            found = milliseconds(partial(work, logits, targets, wanted), given.device, given.repeats)
            lines.append([name, how, _spread(found)])
    title = f"Loss and gradient of 16,000 tokens, 10,000 words, float32, medians of {given.repeats}"
    text = "\n".join([title, machine(given.device), "", table(["loss", "by", "ms"], lines)])
    write_result("gpu_loss", text, keep=not given.no_results)


def sweep(case: Case, given: argparse.Namespace) -> None:
    """Time the captured step with each tile size of each kernel, leaving the other kernels unchanged."""
    from regard.attention.fused import launch

    step = ours(case, given.device, given.precision, given.states)

    def took() -> float | None:
        try:
            return statistics.median(milliseconds(captured(step), given.device, 10))
        except Exception as problem:  # one that the chip has no room for
            print(_said(problem))
            return None

    for name, tiles in SWEPT.items():
        usual = launch.TILES[name]
        found: dict[Any, float | None] = {}
        for tile in tiles:
            launch.TILES[name] = launch.Tile(*tile)
            found[tile] = took()
        launch.TILES[name] = usual
        _tell(case, name, found)
    usual_gates = rnn_gates.WIDE, rnn_gates.TWO
    found = {}
    for wide in WIDE:
        rnn_gates.WIDE, rnn_gates.TWO = wide
        found[wide] = took()
    rnn_gates.WIDE, rnn_gates.TWO = usual_gates
    _tell(case, "gates", found)


def _tell(case: Case, name: str, found: dict[Any, float | None]) -> None:
    best = sorted((time, tile) for tile, time in found.items() if time is not None)
    print(f"{case} {name:10}", "  ".join(f"{tile}: {time:.3f}" for time, tile in best), flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", choices=("bfloat16", "float32"), default="bfloat16")
    parser.add_argument("--states", type=int, default=2, help="width of the encoder's states, in widths of the decoder")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--case", type=int, nargs=4, action="append", metavar=("B", "T", "S", "H"), help="other sizes")
    parser.add_argument(
        "--kernels", action="store_true", help="time each kernel of the captured step, and nothing else"
    )
    parser.add_argument("--sweep", action="store_true", help="time other tiles, and nothing else")
    parser.add_argument("--loss", action="store_true", help="time the loss, and nothing else")
    parser.add_argument("--no-results", action="store_true", help="print only; leave bench/results as it is")
    given = parser.parse_args()
    if given.loss:
        loss(given)
        return
    cases = [Case(*sizes) for sizes in given.case] if given.case else CASES
    if given.kernels or given.sweep:
        for case in cases:
            (sweep if given.sweep else kernels)(case, given)
        return
    rows = [row for case in cases for row in measure(case, given)]
    text = "\n".join(
        [
            f"A training step of a GRU decoder with additive attention, {given.precision}, medians of {given.repeats}",
            machine(given.device),
            "",
            table(["case", "what", "ms", "peak MiB"], rows),
        ]
    )
    write_result("gpu_step", text, keep=not given.no_results)


if __name__ == "__main__":
    main()
