"""What it costs that several processes share a step: bytes that are added up, the time of it, and how much is hidden.

    python bench/distributed.py              # 1 and 2 processes on this machine's CPU, one thread each, on gloo
    python bench/distributed.py --predict    # what the model of time says of 8, 64 and 512 GPUs; measures nothing
    python bench/distributed.py --one-gpu    # on a GPU: one process in DDP and in FSDP2 beside the plain step

The global batch is the same whatever the number of processes. "plain" is one process by itself. "alone" is a process of
two with its half of the batch and no reduction, so what it computes; "after" adds up the gradients when the backward
pass is over, "DDP" while it runs; "reduction" is such a sum by itself. Hidden is the part of it that DDP saves over
"after". Numbers are medians over --repeats of steps that take turns, in milliseconds.

The model of time of a step on N processes, each with a part of the batch:

    t = c + max(l, r - h b)        r = 2 (N - 1) / N * G / B + 2 (N - 1) * a

c is what a process computes, b the backward pass in it, G the bytes of all gradients, B the bandwidth of a process's
slowest link, a the latency of a hop, h how much of the backward pass a reduction may run beside, and l the reduction of
the last bucket, which nothing hides. A ring of all processes is the least that any reduction needs.
"""

import argparse
import contextlib
import copy
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peers import machine, table, write_result

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from regard.config import Config
from regard.config_io import override
from regard.data.batching import Batch
from regard.distributed import World, current, joined
from regard.models.build import build_model
from regard.presets import preset
from regard.training.cuda_graphs import Steps
from regard.training.data_parallel import BUCKET, AllReducedSteps, DDPSteps
from regard.training.objective import SequenceObjective
from regard.training.sharding import Sharded, ShardedSteps

SYSTEMS = ("transformer2017-small", "bahdanau2014-small")
WORDS, LENGTH = 8000, 24
ROWS = 64
FREE = 0.0
"""How much of the backward pass a reduction may run beside on a CPU whose cores are all busy with it."""
LATENCY = 20e-6
"""Seconds of a hop, where it is not measured: of NCCL between machines."""


def whole_batch(config: Config) -> Batch:
    """Make sentences of one length, as a batch of a trained corpus has them."""
    torch.manual_seed(1)
    source, target = (torch.randint(4, WORDS, (ROWS, LENGTH)) for _ in range(2))
    mask = torch.ones(ROWS, LENGTH, dtype=torch.bool)
    read = torch.cat((torch.full((ROWS, 1), 2), target[:, :-1]), dim=1)
    written, lengths = torch.arange(ROWS * LENGTH), torch.full((ROWS,), LENGTH)
    return Batch(source, mask, read, target, mask, torch.arange(ROWS).numpy(), None, written, lengths)


def part_of(batch: Batch, world: World) -> Batch:
    """Take a process's rows."""
    rows = torch.from_numpy(world.part(batch.rows))
    names = ("source", "source_mask", "tokens_in", "tokens_out", "target_mask", "lengths")
    parts: dict[str, Any] = {name: getattr(batch, name)[rows] for name in names}
    return batch._replace(**parts, rows=rows.numpy(), written=torch.arange(len(rows) * LENGTH))


def timed(steps: Any, batch: Any, tokens: float, device: torch.device) -> float:
    """Make a step, forward and backward, and return its seconds."""
    began = time.perf_counter()
    steps.all_of([batch], [tokens])
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


class Reduction:
    """A sum of all gradients by itself."""

    def __init__(self, size: int, world: World) -> None:
        self._values, self._world = torch.zeros(size), world

    def all_of(self, batches: Any, tokens: Any) -> None:
        """Add up as many numbers as there are gradients, in buckets."""
        for bucket in self._values.split(BUCKET // 4):  # type: ignore[no-untyped-call]
            self._world.sum_(bucket)


def measure(name: str, repeats: int, device: torch.device) -> dict[str, Any]:
    """Time a system's step in this process; all kinds of step take turns."""
    config = override(preset(name), ["model.dropout=0"])
    torch.manual_seed(1)
    model = build_model(config.model, WORDS, WORDS).to(device)
    objective, world = SequenceObjective(model, config.training), current()
    batch = whole_batch(config)
    tokens, own = batch.count, part_of(batch, world)
    plain = Steps(objective, contextlib.nullcontext, device)
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
    again = model
    kinds: dict[str, Any] = {"alone" if world.size > 1 else "plain": plain}
    if world.joined:
        kinds["after"] = AllReducedSteps(plain, model, world)
        few = part_of(batch, World(0, 8))
        again = copy.deepcopy(model)
        over = SequenceObjective(again, config.training)
        kinds["DDP"] = DDPSteps(again, over, contextlib.nullcontext, device, world, few)
    if world.size > 1:
        kinds["reduction"] = Reduction(sum(parameter.numel() for parameter in learned), world)
    times: dict[str, list[float]] = {kind: [] for kind in kinds}
    for turn in range(repeats + 2):
        for kind, steps in kinds.items():
            for one in (model, again):
                one.zero_grad(set_to_none=True)
            world.any(False)  # all begin together
            took = timed(steps, own, tokens, device)
            if turn >= 2:
                times[kind].append(took)
    if world.joined and world.size == 1:
        times["FSDP2"] = _sharded(config, own, tokens, device, repeats)
    found = {kind: statistics.median(some) for kind, some in times.items()}
    return {"bytes": sum(parameter.nbytes for parameter in learned), **found}


def _sharded(config: Config, batch: Batch, tokens: int, device: torch.device, repeats: int) -> list[float]:
    torch.manual_seed(1)
    model = build_model(config.model, WORDS, WORDS)
    objective = SequenceObjective(model, config.training)
    steps = ShardedSteps(Sharded(model, objective, device, 1), objective, contextlib.nullcontext, device, 1)
    times = []
    for _ in range(repeats + 2):
        model.zero_grad(set_to_none=True)
        times.append(timed(steps, batch, tokens, device))
    return times[2:]


def in_processes(size: int, arguments: argparse.Namespace, device: str) -> dict[str, dict[str, Any]]:
    """Measure in so many processes at once, and return what the first one found; 0 is one that knows of no other."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    running = []
    for rank in range(max(size, 1)):
        place = {"RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        own = {name: str(value) for name, value in place.items()} if size else {}
        command = [sys.executable, __file__, "--work", device, "--repeats", str(arguments.repeats)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **own}
        running.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    told = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("A process failed.")
    found: dict[str, dict[str, Any]] = json.loads(told[0])
    return found


def work(device: str, repeats: int) -> None:
    """Measure all systems in this process, and print what was found."""
    if device == "cpu":
        torch.set_num_threads(1)
    with joined(device):
        found = {name: measure(name, repeats, torch.device(device)) for name in SYSTEMS}
    print(json.dumps(found))


def reduction(size: int, count: float, bandwidth: float, latency: float) -> float:
    """Return the seconds of a ring's sum of so many bytes."""
    return 2 * (size - 1) / size * count / bandwidth + 2 * (size - 1) * latency


def step_time(compute: float, backward: float, whole: float, last: float, hidden: float) -> float:
    """Return the seconds of a step: what it computes, and what of the reduction nothing hides."""
    return compute + max(last, whole - hidden * backward)


def on_cpu(arguments: argparse.Namespace) -> None:
    """Measure 1 and 2 processes, and hold the model of time against them."""
    one, two = (in_processes(size, arguments, "cpu") for size in (0, 2))
    rows = []
    for name in SYSTEMS:
        plain, found = one[name]["plain"], two[name]
        saved = found["after"] - found["DDP"]
        share = saved / found["reduction"]
        bandwidth = found["bytes"] / found["reduction"]  # two processes each send and receive the whole once
        last = min(BUCKET, found["bytes"]) / bandwidth
        expected = step_time(found["alone"], found["alone"] * 2 / 3, found["reduction"], last, FREE)
        milliseconds = [f"{1e3 * value:,.0f}" for value in (plain, found["alone"], found["reduction"], found["after"])]
        rows.append(
            (
                *(name, f"{found['bytes'] / 2**20:.1f}", *milliseconds, f"{1e3 * found['DDP']:,.0f}"),
                *(f"{100 * share:.0f} %", f"{1e3 * expected:,.0f}", f"{plain / found['DDP']:.2f}"),
            )
        )
    heads = (
        "system",
        "MiB a step",
        "plain",
        "alone",
        "reduction",
        "after",
        "DDP",
        "hidden",
        "model of DDP",
        "speed-up",
    )
    write_result("distributed_cpu", "\n".join((machine(), "", table(heads, rows))), arguments.keep)


def on_one_gpu(arguments: argparse.Namespace) -> None:
    """Measure what DDP and FSDP2 cost where there is nobody to share with."""
    plain, single = (in_processes(size, arguments, "cuda") for size in (0, 1))
    rows = []
    for name in SYSTEMS:
        base = plain[name]["plain"]
        costs = [(single[name][kind], 100 * (single[name][kind] / base - 1)) for kind in ("after", "DDP", "FSDP2")]
        rows.append((name, f"{1e3 * base:.2f}", *(f"{1e3 * value:.2f} ({cost:+.1f} %)" for value, cost in costs)))
    heads = ("system", "plain, ms", "after", "DDP", "FSDP2")
    write_result("distributed_gpu", "\n".join((machine(), "", table(heads, rows))), arguments.keep)


@dataclass(frozen=True)
class Cluster:
    """GPUs, eight to a machine."""

    within: float = 360e9
    """Bytes a second of a GPU's link to the others of its machine: NVLink's 450e9, as far as NCCL gets."""
    between: float = 45e9
    """Of its network card, 400 Gbit/s, as far as NCCL gets."""
    flops: float = 350e12
    """What a GPU computes in a second, in bfloat16, of 989e12 at the most."""


def predict(keep: bool) -> None:
    """Print what the model says of machines of eight GPUs, each GPU with 25,000 tokens a step, and with a thousand."""
    cluster, rows = Cluster(), []
    for name in ("transformer2017-big", "bahdanau2014"):
        with torch.device("meta"):
            model = build_model(preset(name).model, 32000, 32000)
        weights = sum(parameter.numel() for parameter in model.parameters())
        # A recurrent network is bound by its steps, not by its arithmetic: a fifth of the rate.
        rate = cluster.flops * (0.2 if name == "bahdanau2014" else 1.0)
        for tokens in (25_000, 1_000):
            compute = 6 * weights * tokens / rate
            told = []
            for size in (8, 64, 512):
                bandwidth = cluster.within if size <= 8 else cluster.between
                whole = reduction(size, 4 * weights, bandwidth, LATENCY if size > 8 else 3e-6)
                last = reduction(size, min(BUCKET, 4 * weights), bandwidth, 0.0)
                took = step_time(compute, 2 / 3 * compute, whole, last, 0.9)
                told.append(f"{1e3 * took:.1f} ({100 * compute / took:.0f} %)")
            rows.append((name, f"{weights / 1e6:.0f}", f"{tokens:,}", f"{1e3 * compute:.1f}", *told))
    heads = ("system", "million weights", "tokens a GPU", "1 GPU, ms", "8", "64", "512")
    write_result("distributed_model", table(heads, rows), keep)


def main() -> None:
    """Do what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--keep", action="store_true", help="write the table into bench/results")
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--one-gpu", action="store_true")
    parser.add_argument("--work", metavar="DEVICE", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work(arguments.work, arguments.repeats)
    elif arguments.predict:
        predict(arguments.keep)
    elif arguments.one_gpu:
        on_one_gpu(arguments)
    else:
        on_cpu(arguments)


if __name__ == "__main__":
    main()
