"""Measure how the time of a training step grows with length, batch and vocabulary, and preparation with the corpus.

    python bench/growth.py                 # on the CPU: a table, and a picture for docs/performance.md with --keep
    python bench/growth.py --device cuda   # the same on a GPU, where steps are recorded and replayed
    python bench/growth.py --memory        # peak memory of a training step, preset by preset (or with --device cuda)

Steps are those of `regard train`, optimiser included, made by its trainer on batches drawn at random: of two small
systems, a recurrent one with additive attention and a Transformer. One thing grows at a time, the others stay (16
sentences of 32 tokens, 8,000 words). The CPU computes in float32 on one thread, and its own seconds are counted, so
that other work on the machine does not matter; the GPU computes in tf32, its default, and the clock's seconds are
counted. Numbers are medians, ± half the way from the least to the most.

--memory gives each preset the batch that it trains with: sentences and captions of 32 tokens, questions of 16, pictures
of the preset's own size. On the CPU each has a process of its own; on a GPU the numbers are those of torch's allocator:
what tensors had at once, and what it took of the GPU for them, the memory of the recorded step included.
"""

import argparse
import gc
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peers import Spread, machine, say, split, table, write_result
from torch import Tensor, nn
from torch.nn import functional

from regard.config import Config, ImageConfig, TokenizerConfig
from regard.data.batching import PICTURE, Batch, BatchOrder
from regard.data.corpus import open_corpus
from regard.data.special_tokens import BOS, EOS
from regard.data.token_cache import TokenCache
from regard.data.tokenizers import train_tokenizers
from regard.errors import TrainingError
from regard.presets import preset, presets
from regard.presets.vision import any_preset, visions
from regard.task import TrainingData, build, build_empty
from regard.tasks.detection.training import ObjectObjective
from regard.tasks.image_classification.training import ClassBatch, ClassObjective
from regard.tasks.visual_questions.training import AnswerObjective
from regard.training.objective import SequenceObjective
from regard.training.progress import Silent
from regard.training.setting_checks import settled
from regard.training.trainer import Trainer
from regard.vision.detection.batch import ObjectBatch
from regard.vision.questions.batch import QuestionBatch

SYSTEMS = ("bahdanau2014-small", "transformer2017-small")
USUAL = {"length": 32, "batch": 16, "words": 8000}
GROWING = {
    "cpu": {
        "length": (8, 16, 32, 64, 128, 256),
        "batch": (1, 4, 16, 64, 256),
        "words": (1000, 4000, 16000, 64000),
    },
    "cuda": {
        "length": (8, 32, 128, 512, 2048),
        "batch": (1, 4, 16, 64, 256, 1024),
        "words": (1000, 4000, 16000, 64000, 256000),
    },
}
NAMES = {"length": "tokens in a sentence", "batch": "sentences in a batch", "words": "words in the vocabulary"}
PAIRS = (1000, 4000, 16000, 64000, 256000)
PICTURES = {"cpu": "growth.png", "cuda": "growth-cuda.png"}
IMAGES = Path(__file__).parents[1] / "docs" / "images"
OBJECTIVES: dict[str, Any] = {"classify": ClassObjective, "answer": AnswerObjective, "detect": ObjectObjective}
WORDS, LENGTH, QUESTION = 10000, 32, 16
"""Of all that is read and written where memory is measured."""


# -- a training step --------------------------------------------------------------------------------------------------


@dataclass
class Told(Silent):
    """A reporter that records the times and losses of training steps."""

    least: float = 0.0
    """Seconds of steps to be timed."""
    fewest: int = 3
    """Steps to be timed."""
    off: int = 3
    """Warm-up steps: on a GPU the first runs eagerly, and the second is recorded."""
    by_clock: bool = True
    """Whether to measure wall-clock time instead of CPU time."""
    last: float = 0.0
    seconds: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def message(self, text: str) -> None:
        """Keep it."""
        self.said.append(text)

    def logged(self, record: Mapping[str, Any]) -> None:
        """Keep how long a step took, and its loss."""
        now = busy()
        self.seconds.append(1 / record["steps_per_second"] if self.by_clock else now - self.last)
        self.losses.append(record["loss"])
        self.last = now

    @property
    def took(self) -> list[float]:
        """What the steps on the clock took."""
        return self.seconds[self.off :]

    @property
    def enough(self) -> bool:
        """Whether so much was timed."""
        return len(self.took) >= self.fewest and sum(self.took) > self.least


def busy() -> float:
    """Return the CPU time of this process and its children."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


class Unsaved(Trainer):
    """The trainer of `regard train`, except that it stops after enough timed steps and saves nothing."""

    def end(self) -> str | None:
        """Stop."""
        return "steps" if self.reporter.enough else super().end()  # type: ignore[attr-defined]

    def _save(self, scheduled: bool) -> None:
        pass


def drawn(config: Config, device: torch.device, words: int) -> nn.Module:
    """Build a model on a device with simple small random weights: a paper's initialisation can take minutes."""
    torch.manual_seed(1)
    model = build_empty(config.model, words, words).to(device)
    with torch.no_grad():
        for weights in model.parameters():
            weights.normal_(std=0.02)
    return model


def train(config: Config, model: nn.Module, batch: Any, told: Told) -> None:
    """Train a model on one batch again and again, as `regard train` does."""
    training = replace(config.training, accumulate=1, average="none", log_every=1, steps=0, epochs=1, patience=0)
    training = replace(training, validate_every=0, save_every=0)
    device = next(model.parameters()).device
    config = settled(replace(config, training=training), device)
    rows, objective = [np.arange(1)] * 200, OBJECTIVES.get(config.model.task, SequenceObjective)
    with tempfile.TemporaryDirectory() as folder:
        data = TrainingData(lambda epoch: rows, lambda _: batch, None, "", config.decoding, objective)
        Unsaved(config, Path(folder), model, data, told).run()


def sentences(source: Tensor, target: Tensor, words: int) -> Batch:
    """Draw pairs of so many tokens on each side, padded to the longest."""
    count = len(source)
    source_mask, target_mask = (torch.arange(int(of.max())) < of[:, None] for of in (source, target))
    read, written = (torch.randint(4, words, mask.shape) * mask for mask in (source_mask, target_mask))
    before, at = functional.pad(written, (1, -1), value=BOS), target_mask.flatten().nonzero().squeeze(1)
    return Batch(read, source_mask, before, written, target_mask, np.arange(count), None, at, source)


def alike(length: int, batch: int, words: int) -> Batch:
    """Draw pairs of one length."""
    lengths = torch.full((batch,), length)
    return sentences(lengths, lengths, words)


def own_batch(config: Config) -> Any:
    """Draw a batch as a preset trains with."""
    tokens, image, task = config.training.batch_tokens, config.model.image, config.model.task
    if image is None:
        made = alike(LENGTH, tokens // LENGTH, WORDS)
        if config.model.encoder.kind != "none":
            return made
        count = len(made.rows)  # a language model's sources have their end mark alone
        ends, one = torch.full((count, 1), EOS), torch.ones(count, 1, dtype=torch.bool)
        return made._replace(source=ends, source_mask=one, lengths=one.long().squeeze(1))
    count = tokens // (PICTURE if task in OBJECTIVES else LENGTH)
    pictures, rows = pictures_of(image, count), np.arange(count)
    if task == "classify":
        return ClassBatch(pictures, torch.randint(10, (count,)), rows)
    if task == "answer":
        asked = count * config.training.asked
        read, right = torch.randint(4, WORDS, (asked, QUESTION)), torch.randint(10, (asked,))
        no = torch.zeros(asked, dtype=torch.bool)
        return QuestionBatch(
            pictures, None, read, torch.ones_like(read, dtype=torch.bool), None, right, no.long(), no, None,
            np.arange(asked),
        )  # fmt: skip
    if task == "detect":
        most = config.model.detection.queries
        boxes, masks = 0.2 + 0.3 * torch.rand(count, most, 4), torch.rand(count, most, image.size, image.size) < 0.2
        classes, counts = torch.randint(10, (count, most)), torch.full((count,), most)
        return ObjectBatch(pictures, classes, boxes, masks, counts, count * most, rows)
    made = alike(LENGTH, count, WORDS)
    cells = torch.ones(count, pictures.shape[1] if image.kind == "regions" else 1, dtype=torch.bool)
    return made._replace(source=pictures, source_mask=cells, lengths=None)


def pictures_of(image: ImageConfig, count: int) -> Tensor:
    """Draw pixels, or features of regions."""
    if image.kind == "regions":
        return torch.randn(count, image.size**2, image.channels)
    return torch.randint(256, (count, image.size, image.size, image.channels), dtype=torch.uint8)


# -- how time grows ---------------------------------------------------------------------------------------------------


def set_for(config: Config, device: torch.device) -> Config:
    """Let a CPU compute in float32, and a GPU as it does by itself."""
    precision = "float32" if device.type == "cpu" else "auto"
    return replace(config, training=replace(config.training, precision=precision))


def step(name: str, device: torch.device, length: int, batch: int, words: int) -> Spread:
    """Time the training steps of a system."""
    told = Told(least=0.4 if on_cpu(device) else 0.15, off=2 if on_cpu(device) else 3, by_clock=not on_cpu(device))
    config = set_for(preset(name), device)
    config = replace(config, training=replace(config.training, batch_tokens=1))
    torch.manual_seed(1)
    train(config, build(config.model, words, words).to(device), alike(length, batch, words), told)
    return Spread(told.took)


def grown(device: torch.device) -> dict[str, dict[str, dict[int, Spread]]]:
    """Measure steps: by what grows, by system and by size."""
    found: dict[str, dict[str, dict[int, Spread]]] = {}
    for what, sizes in GROWING[device.type].items():
        for name in SYSTEMS:
            of = found.setdefault(what, {}).setdefault(name, {})
            for size in sizes:
                free()
                of[size] = step(name, device, **{**USUAL, what: size})
                say(f"{NAMES[what]}: {size:,}, {name}: {1e3 * statistics.median(of[size].values):.1f} ms")
    return found


def prepared() -> dict[str, dict[int, Spread]]:
    """Measure what comes before training: the vocabulary, the tokens, and the order of an epoch's batches."""
    found: dict[str, dict[int, Spread]] = {"vocabulary": {}, "tokens": {}, "order of batches": {}}
    for pairs in PAIRS:
        corpus = open_corpus((f"phrasebook:{pairs}",), "train")
        list(corpus)  # the phrasebook itself is made off the clock
        took: dict[str, list[float]] = {name: [] for name in found}
        while len(took["tokens"]) < 3 and sum(map(sum, took.values())) < 20:
            with tempfile.TemporaryDirectory() as folder:
                began = busy()
                tokenizers = train_tokenizers(TokenizerConfig(vocabulary=1000), corpus, 1)
                learned = busy()
                cache = TokenCache.build(Path(folder) / "train", corpus, tokenizers, 200)
                built = busy()
            BatchOrder.of(cache, 4000, 1).batches(1)
            for name, seconds in zip(took, (learned - began, built - learned, busy() - built), strict=True):
                took[name].append(seconds)
        for name, values in took.items():
            found[name][pairs] = Spread(values)
        say(f"{pairs:,} pairs: {sum(map(statistics.median, took.values())):.2f} s")
    return found


def rows_of(found: Mapping[str, Mapping[str, Mapping[int, Spread]]]) -> list[list[str]]:
    """Write down what was timed."""
    return [
        [what, name, f"{size:,}", f"{1e3 * statistics.median(one.values):.1f} ± {1e3 * one.half:.1f}", repeats(one)]
        for what, by_system in found.items()
        for name, by_size in by_system.items()
        for size, one in by_size.items()
    ]


def repeats(one: Spread) -> str:
    """Say how often something was timed."""
    return str(len(one.values))


def draw(
    found: Mapping[str, Mapping[str, Mapping[int, Spread]]], before: Mapping[str, Mapping[int, Spread]], path: Path
) -> None:
    """Draw all of it, on logarithmic scales: what grows evenly is a straight line."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator

    of = " (one thread)" if before else ""
    figure = Figure(figsize=(9, 6.4) if before else (12, 3.4), layout="constrained")
    places = list(figure.subplots(*((2, 2) if before else (1, 3))).flat)
    for axes, (what, by_system) in zip(places, found.items(), strict=False):
        for name, by_size in by_system.items():
            took = [1e3 * statistics.median(one.values) for one in by_size.values()]
            axes.loglog(list(by_size), took, marker="o", label=name)
        axes.set(xlabel=NAMES[what], ylabel=f"ms a training step{of}")
    for name, by_size in before.items():
        places[3].loglog(
            list(by_size), [statistics.median(one.values) for one in by_size.values()], marker="o", label=name
        )
        places[3].set(xlabel="pairs in the corpus", ylabel=f"seconds before training{of}")
    for axes in places:
        axes.legend(frameon=False)
        axes.grid(alpha=0.3)
        for axis in (axes.xaxis, axes.yaxis):  # 100, not 10²; between them 2 and 5 alone
            axis.set_major_formatter("{x:,g}")
            axis.set_minor_locator(LogLocator(subs=(2, 5)))
            axis.set_minor_formatter("{x:,g}" if axis is axes.yaxis else "")
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=110)


# -- memory -----------------------------------------------------------------------------------------------------------


def peaks(device: torch.device, names: list[str], budget: float) -> tuple[list[list[str]], list[str]]:
    """Measure the peak memory of a step of presets, at the batch size that each trains with; name those left out."""
    rows: list[list[str]] = []
    until = time.monotonic() + budget
    for number, name in enumerate(names):
        if time.monotonic() > until:
            return rows, names[number:]
        if on_cpu(device):
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                rows.append(alone.submit(peak_of_process, name).result())
        else:
            rows.append(peak_of_gpu(name, device))
        say(" ".join(rows[-1]))
    return rows, []


def on_cpu(device: torch.device) -> bool:
    """Say whether this is the CPU."""
    return device.type == "cpu"


def begun(name: str, device: torch.device) -> tuple[list[str], Callable[[Told], None]]:
    """Make a preset's model; say how large it is, and return what trains it."""
    config = set_for(any_preset(name), device)
    model = drawn(config, device, 10 if config.model.task in ("classify", "detect") else WORDS)
    batch, count = own_batch(config), sum(weights.numel() for weights in model.parameters())
    written = config.model.image is None and config.model.encoder.kind == "none"
    shape = batch.tokens_out.shape if written else batch.source.shape
    size = f"{shape[0]:,} × {'×'.join(map(str, shape[1:]))}"
    return [name, f"{count / 1e6:.1f}", size], partial(train, config, model, batch)


def peak_of_process(name: str) -> list[str]:
    """Measure all that this process takes after its start; it is refused more than there is."""
    room = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_DATA, (room, resource.getrlimit(resource.RLIMIT_DATA)[1]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    row = [name, "", ""]
    try:
        row, work = begun(name, torch.device("cpu"))
        work(Told(fewest=1, off=1))
    except (RuntimeError, MemoryError) as error:
        if "memory" not in str(error):
            raise
        return [*row, f"over {room / 2**20:,.0f}"]
    most = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 2**10
    return [*row, f"{most:,.0f}"]


def peak_of_gpu(name: str, device: torch.device) -> list[str]:
    """Measure what torch takes of a GPU beyond what it had."""
    free()
    before = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    torch.cuda.reset_peak_memory_stats()
    row, told = [name, "", ""], Told(fewest=2, off=2)
    try:
        row, work = begun(name, device)
        work(told)
    except torch.OutOfMemoryError:
        return [*row, *["more than there is"] * 2, "", ""]
    except TrainingError as error:  # these weights were drawn by us, and not by the preset
        return [*row, "", "", "", str(error)]
    found = torch.cuda.max_memory_allocated() - before[0], torch.cuda.max_memory_reserved() - before[1]
    how = "launched" if any("cannot be recorded" in text for text in told.said) else "recorded"
    return [*row, *(f"{one / 2**20:,.0f}" for one in found), f"{1e3 * told.took[-1]:.1f}", how]


def free() -> None:
    """Free unused GPU memory."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()


# -- the tables -------------------------------------------------------------------------------------------------------


def measure_memory(device: torch.device, keep: bool, budget: float, names: list[str]) -> None:
    """Write the table of memory."""
    head = ["preset", "million parameters", "batch", "peak, MiB"]
    about = "float32: all that a process takes beyond what it starts with, in two steps, once"
    if not on_cpu(device):
        names.sort(key=lambda name: name.endswith("-small"))
        head += ["taken of the GPU, MiB", "ms a step", "steps are"]
        about = "tf32: four steps, the second recorded as a CUDA graph and replayed from then on, the last timed"
    rows, left = peaks(device, names, budget)
    lines = [
        f"Peak memory of training on {device.type}, {about}",
        f"Texts and captions of {LENGTH} tokens, questions of {QUESTION}, {WORDS:,} words; batches as presets say",
        machine(device.type),
        "",
        table(head, rows),
        *([f"Left out, since {budget:.0f} s had passed: {', '.join(left)}"] if left else []),
    ]
    write_result(f"memory_{device.type}", "\n".join(lines), keep)


def measure_growth(device: torch.device, keep: bool) -> None:
    """Write the table of times, and draw it."""
    if on_cpu(device):
        torch.set_num_threads(1)
    found = grown(device)
    before = prepared() if on_cpu(device) else {}
    rows = rows_of({NAMES[what]: by_system for what, by_system in found.items()})
    rows += rows_of({"pairs in the corpus": before})
    text = table(["what grows", "of", "to", "milliseconds", "repeats"], rows)
    how = "float32, one thread, seconds of the processor" if on_cpu(device) else "tf32, recorded, seconds of the clock"
    title = f"Training steps on {device.type}, {how}: medians ± half the way from the least to the most"
    write_result(f"growth_{device.type}", f"{title}\n{machine(device.type)}\n\n{text}", keep)
    if keep:
        draw(found, before, IMAGES / PICTURES[device.type])


def main() -> None:
    """Measure, print and keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument(
        "--budget", type=float, default=3600.0, help="--memory: seconds after which presets are left out"
    )
    parser.add_argument("--keep", action="store_true", help="write to bench/results, and the picture to docs")
    parser.add_argument("--presets", default="", help="--memory: these alone, such as gpt,transformer2017")
    given = parser.parse_args()
    device = torch.device(given.device)
    if given.memory:
        measure_memory(device, given.keep, given.budget, split(given.presets) or [*presets, *visions])
    else:
        measure_growth(device, given.keep)


if __name__ == "__main__":
    main()
