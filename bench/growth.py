"""How the cost of a training step grows with length, batch and vocabulary, and that of preparing with the corpus.

    python bench/growth.py                 # on the CPU: a table and a picture for docs/performance.md
    python bench/growth.py --device cuda   # the same on a GPU, where steps are recorded and replayed
    python bench/growth.py --memory        # peak memory of a training step, preset by preset (or with --device cuda)

Steps are those of training, optimiser included, in float32, on tokens drawn at random: of two small systems, a
recurrent one with additive attention and a Transformer. One thing grows at a time, the others stay (16 sentences of 32
tokens, 8,000 words). Numbers are medians.
"""

import argparse
import contextlib
import multiprocessing
import resource
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers import machine, table, write_result

from regard.config import Config, TokenizerConfig
from regard.data.batching import Batch, BatchOrder
from regard.data.cache import TokenCache
from regard.data.corpus import open_corpus
from regard.data.tokenizers import train_tokenizers
from regard.models.build import build_model
from regard.presets import preset, presets
from regard.training.graphs import RecordedSteps, Steps, own_stream
from regard.training.objective import Objective
from regard.training.optimizer import gradient_norm, optimizers

SYSTEMS = ("bahdanau2014-small", "transformer2017-small")
USUAL = {"length": 32, "batch": 16, "words": 8000}
GROWING = {
    "length": (8, 16, 32, 64, 128, 256),
    "batch": (1, 4, 16, 64, 256),
    "words": (1000, 4000, 16000, 64000),
}
NAMES = {"length": "tokens in a sentence", "batch": "sentences in a batch", "words": "words in the vocabulary"}
PAIRS = (1000, 4000, 16000, 64000)
PICTURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"


def batch_of(length: int, batch: int, words: int) -> Batch:
    """Draw sentences of the same length."""
    source, target = torch.randint(4, words, (2, batch, length))
    real = torch.ones(batch, length, dtype=torch.bool)
    return Batch(source, real, target, target, real, np.arange(batch), None, torch.arange(batch * length), real.sum(1))


def step_of(config: Config, device: torch.device, length: int, batch: int, words: int) -> Callable[[], None]:
    """Make a training step as training makes it."""
    torch.manual_seed(1)
    model = build_model(config.model, words, words).to(device).train()
    optimizer = optimizers[config.training.optimizer](model.parameters(), config.training)
    objective, given = Objective(model, config.training), batch_of(length, batch, words)
    on_gpu = device.type == "cuda"
    kind: Any = RecordedSteps if on_gpu else Steps
    steps = kind(objective, contextlib.nullcontext, device, *([print] if on_gpu else []))
    given = given.filled(given.shape).pinned() if on_gpu else given

    def step() -> None:
        optimizer.zero_grad(set_to_none=not on_gpu)
        steps(given, batch * length)
        gradient_norm(model.parameters(), config.training.clip)
        optimizer.step()

    return step


def seconds(work: Callable[[], object], device: torch.device, least: float = 0.4) -> float:
    """Return the median time of some runs, after a few that do not count."""
    took: list[float] = []
    for number in range(200):
        began = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if number >= 3:
            took.append(time.perf_counter() - began)
        if len(took) >= 3 and sum(took) > least:
            break
    return statistics.median(took)


def grown(device: torch.device) -> dict[str, dict[str, list[float]]]:
    """Measure steps: by what grows and by system."""
    found: dict[str, dict[str, list[float]]] = {}
    for what, sizes in GROWING.items():
        for name in SYSTEMS:
            steps = [step_of(preset(name), device, **{**USUAL, what: size}) for size in sizes]
            found.setdefault(what, {})[name] = [seconds(step, device) for step in steps]
    return found


def prepared() -> dict[str, list[float]]:
    """Measure what comes before training: the vocabulary, the tokens, and the order of an epoch's batches."""
    found: dict[str, list[float]] = {"vocabulary": [], "tokens": [], "order of batches": []}
    cpu = torch.device("cpu")
    for pairs in PAIRS:
        corpus = open_corpus((f"phrasebook:{pairs}",), "train")
        list(corpus)  # the phrasebook itself is made off the clock
        with tempfile.TemporaryDirectory() as folder:
            began = time.perf_counter()
            tokenizers = train_tokenizers(TokenizerConfig(vocabulary=1000), corpus, 1)
            learned = time.perf_counter()
            cache = TokenCache.build(Path(folder) / "train", corpus, tokenizers, 200)
            built = time.perf_counter()
        found["vocabulary"].append(learned - began)
        found["tokens"].append(built - learned)
        order = BatchOrder.of(cache, 4000, 1)
        found["order of batches"].append(seconds(partial(order.batches, 1), cpu, 0.05))
    return found


def peaks(device: torch.device) -> list[list[str]]:
    """Measure the peak memory of a step of every preset, at the batch size that it trains with, each in a process."""
    rows = []
    for name in presets:
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
            rows.append(alone.submit(peak, name, device).result())
        print(*rows[-1], flush=True)
    return rows


def peak(name: str, device: torch.device) -> list[str]:
    """Measure that of one preset: what torch takes of a GPU, or all that this process takes after its start."""
    config, length, words = preset(name), 32, 10000
    tokens = config.training.batch_tokens
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    model = build_model(config.model, words, words).to(device).train()
    count = sum(one.numel() for one in model.parameters())
    optimizer = optimizers[config.training.optimizer](model.parameters(), config.training)
    steps = Steps(Objective(model, config.training), contextlib.nullcontext, device)
    try:
        for _ in range(2):
            optimizer.zero_grad(set_to_none=True)
            steps(batch_of(length, tokens // length, words), tokens)
            optimizer.step()
        if device.type == "cuda":
            most = torch.cuda.max_memory_allocated() / 2**20
        else:
            most = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
        taken = f"{most:,.0f}"
    except torch.OutOfMemoryError:
        taken = "more than there is"
    return [name, f"{count / 1e6:.1f}", f"{tokens:,}", taken]


def draw(found: dict[str, dict[str, list[float]]], before: dict[str, list[float]]) -> None:
    """Draw all of it, on logarithmic scales: what grows evenly is a straight line."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6.4), layout="constrained")
    places = figure.subplots(2, 2).flat
    for axes, (what, by_system) in zip(places, found.items(), strict=False):
        for name, took in by_system.items():
            axes.loglog(GROWING[what], [1e3 * one for one in took], marker="o", label=name)
        axes.set(xlabel=NAMES[what], ylabel="ms a training step")
        axes.legend(frameon=False)
    last = figure.axes[3]
    for name, took in before.items():
        last.loglog(PAIRS, took, marker="o", label=name)
    last.set(xlabel="pairs in the corpus", ylabel="seconds before training")
    last.legend(frameon=False)
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--keep", action="store_true", help="write to bench/results, and the picture to docs")
    given = parser.parse_args()
    if given.memory:
        head = ["preset", "million parameters", "tokens in a batch", "peak, MiB"]
        text = table(head, peaks(torch.device(given.device)))
        about = f"{machine(given.device)}\nfloat32, sentences of 32 tokens, 10,000 words"
        write_result(f"memory_{given.device}", f"{about}\n\n{text}", given.keep)
        return
    device = torch.device(given.device)
    with own_stream(device):
        found = grown(device)
    before = prepared()
    rows = [
        [NAMES[what], name, *(f"{1e3 * one:.1f} at {size:,}" for size, one in zip(GROWING[what], took, strict=True))]
        for what, by_system in found.items()
        for name, took in by_system.items()
    ]
    rows += [["pairs", name, *(f"{1e3 * one:.1f} at {size:,}" for size, one in zip(PAIRS, took, strict=True))]
             for name, took in before.items()]  # fmt: skip
    widest = max(map(len, rows))
    rows = [[*row, *[""] * (widest - len(row))] for row in rows]
    text = table(["what grows", "of", "milliseconds", *[""] * (widest - 3)], rows)
    write_result(f"growth_{device.type}", f"{machine(device.type)}\n\n{text}", given.keep)
    if given.keep and device.type == "cpu":
        draw(found, before)


if __name__ == "__main__":
    main()
