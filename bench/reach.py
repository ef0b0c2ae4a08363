"""Measure the cost of each reach by sequence length: time and memory, forward and backward, at lengths up to 8,192.

Each number comes from a fresh process: the minimum time of several repeats (on a CPU, CPU time on one thread), and the
peak memory beyond the start (on a CPU, resident memory). It is causal self-attention with several heads; the local
reaches and those of the additive score have one head.

    python bench/reach.py                       all of it: ten minutes on one core
    python bench/reach.py --quick               lengths up to 2,048, one repeat
    python bench/reach.py --plot docs/images/reach.png --page docs/reach.md
"""

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (512, 1024, 2048, 4096, 8192)
WIDTH = 512
LINUX = platform.system() == "Linux"
FITTED = 3
"""The exponent is fitted to this many of the longest lengths: at short ones, constant costs matter."""
ALONE = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2**17)}
"""One thread; and memory comes from the system at all lengths, where glibc would reuse it below 32 MB: a step in time
that has nothing to do with the reach."""


class Row(NamedTuple):
    """A configuration to measure, and its expected cost."""

    name: str
    reach: str
    cost: str
    score: str = "scaled-dot"
    heads: int = 8
    window: int = 64
    stride: int = 0
    """0 for the root of the length."""
    position: str = "none"
    look: bool = False
    """Whether the attention weights are requested."""
    longest: int = LENGTHS[-1]
    """Lengths beyond are left out: they would take tens of gigabytes."""


ROWS = (
    Row("global, with weights", "global", "T·S", look=True, longest=4096),
    Row("global", "global", "T·S"),
    Row("causal", "causal", "T·S"),
    Row("window", "window", "T·w"),
    Row("window, shaw", "window", "T·w", position="shaw"),
    Row("dilated", "dilated", "T·w", stride=16),
    Row("chunked", "chunked", "T·w"),
    Row("strided", "strided", "T·√S"),
    Row("local-m", "local-m", "T·D", "general", 1, 10),
    Row("local-p", "local-p", "T·D", "general", 1, 10),
    Row("additive, global", "global", "T·S", "additive", 1, longest=2048),
    Row("additive, window", "window", "T·w", "additive", 1, 16),
    Row("additive, local-p", "local-p", "T·D", "additive", 1, 10),
)


class Measured(NamedTuple):
    """What one row cost at one length."""

    seconds: float
    bytes: int


def measure(row: Row, length: int, repeats: int, device: str) -> Measured:
    """Run attention forward and backward; runs in a fresh process."""
    import torch

    from regard.attention import build_attention
    from regard.config import AttentionConfig

    torch.manual_seed(1)
    torch.set_num_threads(1)
    config = AttentionConfig(
        row.score,
        row.reach,
        width=64,
        heads=row.heads,
        project=row.heads > 1,
        window=row.window,
        stride=row.stride or round(math.sqrt(length)),
    )
    itself = not row.reach.startswith("local")
    look = build_attention(config, WIDTH, WIDTH, itself=itself, causal=itself, position=row.position).to(device)
    states = torch.randn(1, length, WIDTH, device=device, requires_grad=True)
    mask = torch.ones(1, length, dtype=torch.bool, device=device)

    def once() -> float:
        start = _clock(device)
        seen = look(states, look.remember(states, mask), look=row.look).context
        seen.sum().backward()
        look.zero_grad()
        states.grad = None
        return _clock(device) - start

    # A warm-up at a short length, so that one-time costs are not counted.
    states, whole = states[:, :64].detach().requires_grad_(), states
    mask, real = mask[:, :64], mask
    once()
    states, mask = whole, real
    before = _in_use(device)
    times = [once()]
    peak = _peak(device) - before
    return Measured(min([*times, *(once() for _ in range(repeats - 1))]), max(peak, 0))


def _clock(device: str) -> float:
    """Return CPU time on a CPU, which other processes do not affect; else wall-clock time."""
    if device == "cpu":
        return time.process_time()
    import torch

    torch.cuda.synchronize()
    return time.perf_counter()


def _in_use(device: str) -> int:
    """Return the memory in use now, and reset the peak."""
    if device != "cpu":
        import torch

        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if not LINUX:
        return _peak(device)
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak(device: str) -> int:
    """Return the peak memory."""
    if device != "cpu":
        import torch

        return torch.cuda.max_memory_allocated()
    if LINUX:
        return _status("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if platform.system() == "Darwin" else peak * 1024


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field + ":")) * 1024


Results = dict[str, dict[int, Measured]]


def run(lengths: tuple[int, ...], rounds: int, repeats: int, device: str) -> Results:
    """Measure every row at every length in each round; keep the minimum."""
    found: Results = {row.name: {} for row in ROWS}
    for number in range(rounds):
        for i, row in enumerate(ROWS):
            for length in (length for length in lengths if length <= row.longest):
                command = [sys.executable, __file__, "--measure", str(i), str(length), str(repeats), device]
                environment = {**os.environ, **ALONE}
                done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
                new = Measured(*json.loads(done.stdout))
                old = found[row.name].get(length, new)
                found[row.name][length] = Measured(min(new.seconds, old.seconds), min(new.bytes, old.bytes))
                cost = f"{new.seconds:8.3f} s {new.bytes / 2**20:10,.0f} MB"
                print(f"round {number + 1}: {row.name:<22}{length:>6} {cost}", file=sys.stderr, flush=True)
    return found


def exponent(by_length: dict[int, float]) -> float:
    """Fit a power of the length to the longest lengths, by least squares on logarithms."""
    points = [(math.log(length), math.log(max(value, 1e-9))) for length, value in sorted(by_length.items())][-FITTED:]
    x, y = (sum(part) / len(points) for part in zip(*points, strict=True))
    slope: float = sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)
    return slope


def table(results: Results, lengths: tuple[int, ...]) -> str:
    """Write times, their growth, and memory."""
    head = "| reach | should cost | " + " | ".join(f"{n:,}" for n in lengths) + " | grows as |"
    parts = []
    for title, value in (("Time in milliseconds", 0), ("Most memory at once, in MB", 1)):
        rows = [f"{title}, by length:", "", head, "|---|---|" + "---:|" * (len(lengths) + 1)]
        for row in ROWS:
            found = {length: float(one[value]) for length, one in results[row.name].items()}
            scale = 1e3 if value == 0 else 1 / 2**20
            cells = [f"{found[n] * scale:,.0f}" if n in found else "–" for n in lengths]
            power = f"length^{exponent(found):.2f}" if len(found) >= FITTED else "–"
            rows.append(f"| {row.name} | {row.cost} | {' | '.join(cells)} | {power} |")
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def machine(device: str) -> str:
    """Say what the numbers were made on."""
    import torch

    import regard

    versions = f"regard {regard.__version__}, torch {torch.__version__}, Python {platform.python_version()}"
    if device != "cpu":
        return f"{torch.cuda.get_device_name()}, {versions}"
    model = platform.processor() or platform.machine()
    if LINUX:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return f"one thread of {os.cpu_count()} processors {model} ({torch.backends.cpu.get_cpu_capability()}), {versions}"


def plot(results: Results, path: Path) -> None:
    """Draw time and memory against length, both in powers."""
    from regard.viz.figure_style import FAINT, LINES, save_figure
    from regard.viz.metric_curves import COLOURS

    shown = [row for row in ROWS if row.score != "additive"]
    short = [row.name for row in shown if row.cost != "T·S"]

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(10.5, 4.4)
        for axes, value, label in zip(figure.subplots(1, 2), (0, 1), ("milliseconds", "MB at once"), strict=True):
            for row in shown:
                points = sorted(results[row.name].items())
                scale = 1e3 if value == 0 else 1 / 2**20
                style: dict[str, Any] = {"color": FAINT, "linestyle": ("-", "--", ":")[len(axes.lines) % 3]}
                if row.name in short:
                    style = {"color": COLOURS[short.index(row.name) % len(COLOURS)]}
                    style["linestyle"] = "-" if short.index(row.name) < len(COLOURS) else "--"
                axes.plot(
                    [length for length, _ in points],
                    [one[value] * scale for _, one in points],
                    marker="o",
                    markersize=3.5,
                    linewidth=1.6,
                    label=f"{row.name}  ({row.cost})",
                    **style,
                )
            axes.set_xscale("log", base=2)
            axes.set_yscale("log", base=10)
            lengths = sorted({length for found in results.values() for length in found})
            axes.set_xticks(lengths, [f"{length:,}" for length in lengths])
            axes.set_xlabel("length")
            axes.set_ylabel(label)
            axes.grid(color=LINES, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.tick_params(length=0, which="both", colors=FAINT)
            for side in ("top", "right", "left", "bottom"):
                axes.spines[side].set_visible(False)
        figure.axes[0].set_title("Time, forward and backward", loc="left", size=11, weight="bold")
        figure.axes[1].set_title("Memory", loc="left", size=11, weight="bold")
        figure.axes[1].legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
        figure.subplots_adjust(wspace=0.22)

    path.parent.mkdir(parents=True, exist_ok=True)
    save_figure(path, [], draw)


def main() -> None:
    """Measure, print, and draw and write where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="lengths up to 2,048, one repeat")
    parser.add_argument("--rounds", type=int, default=1, help="how often everything is measured anew")
    parser.add_argument("--repeats", type=int, default=3, help="repeats in one process")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--plot", type=Path, help="draw the numbers here")
    parser.add_argument("--page", type=Path, help="write the table into this page, between its marks")
    parser.add_argument("--results", type=Path, help="keep the numbers here, and take them from here if they are")
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        row, length, repeats, device = options.measure
        print(json.dumps(measure(ROWS[int(row)], int(length), int(repeats), device)))
        return
    lengths = LENGTHS[:3] if options.quick else LENGTHS
    rounds, repeats = (1, 1) if options.quick else (options.rounds, options.repeats)
    if options.results and options.results.is_file():
        kept = json.loads(options.results.read_text())
        results = {name: {int(n): Measured(*one) for n, one in found.items()} for name, found in kept.items()}
    else:
        results = run(lengths, rounds, repeats, options.device)
        if options.results:
            options.results.write_text(json.dumps(results))
    made = f"{table(results, lengths)}\n\nMade on {machine(options.device)}; the least of {rounds * repeats}."
    print(made)
    if options.plot:
        plot(results, options.plot)
    if options.page:
        text = options.page.read_text(encoding="utf-8")
        before, mark, rest = text.partition("<!-- numbers -->\n")
        end = rest[rest.index("<!-- end of numbers -->") :]
        options.page.write_text(f"{before}{mark}{made}\n{end}", encoding="utf-8")


if __name__ == "__main__":
    main()
