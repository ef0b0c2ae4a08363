"""How fast `regard translate` gets through a file: one process with all cores, or a worker process for each core.

    python bench/bulk.py
    python bench/bulk.py --model mine=models/mine --lines 20480

Each turn translates the same file with each setting, and the outputs must be the same bytes. "lines/s" counts from the
first lines of output to the last, that is without start-up; "whole, s" is the time from start to end, and "cpu, s" the
processor time of all processes. "ratio" is the rate beside that of one process with as many threads as there are
workers, in the same turn: the median of all turns, least and most in brackets.

On a machine with other work only "cpu, s" counts: workers are sessions of their own, to which Linux gives a share each.
The second table does not depend on that. In one process with one thread it counts the processor time of what is divided
among threads (encoding and search) and of the rest (tokenising, making texts): with c cores a process takes rest +
divided / c, and c workers (rest + divided) / c. "bound" is the ratio of the two: workers cannot gain more than that.

The models are a recurrent one (the preset bahdanau2014-small) and a Transformer (transformer2017-small), trained for
--steps steps on the phrasebook: enough that translations end where they should.
"""

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from peers import machine, say, table, write_result

PRESETS = {"recurrent": "bahdanau2014-small", "transformer": "transformer2017-small"}
CORPUS = "phrasebook:3-7"


class Turn(NamedTuple):
    """One run of the command."""

    rate: float
    whole: float
    cpu: float
    digest: str


def regard(*arguments: str, threads: int) -> list[str]:
    """Return the command line, as a list, and set nothing: threads go by the environment."""
    return ["env", f"OMP_NUM_THREADS={threads}", sys.executable, "-m", "regard", *arguments]


def train(cache: Path, name: str, steps: int) -> Path:
    """Train a model, unless that was done before."""
    folder = cache / f"bulk-{name}-{steps}"
    if not (folder / "model.safetensors").is_file():
        say(f"training {folder}")
        settings = (f"training.steps={steps}", f"training.validate_every={steps}", "tokenizer.vocabulary=1200")
        chosen = [part for setting in settings for part in ("--set", setting)]
        data = ("--data", f"{CORPUS}:20000", "--valid", "phrasebook:valid:200")
        command = ("train", "--preset", PRESETS[name], *data, "--out", str(folder), "--device", "cpu", *chosen)
        subprocess.run(regard(*command, threads=os.cpu_count() or 1), check=True, stdout=subprocess.DEVNULL)
    return folder


def write_lines(path: Path, count: int) -> None:
    """Write sentences of the kind that the models know."""
    command = regard("data", f"{CORPUS}:{count}", threads=1)
    rows = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    path.write_text("".join(row.split("\t")[0] + "\n" for row in rows), encoding="utf-8")


def translate(model: Path, path: Path, workers: int, threads: int, more: list[str]) -> Turn:
    """Translate a file once."""
    command = regard("translate", str(model), "--device", "cpu", "--input", str(path), *more, threads=threads)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    digest, lines, first, at_first = hashlib.sha256(), 0, 0.0, 0
    with subprocess.Popen([*command, "--workers", str(workers)], stdout=subprocess.PIPE, bufsize=0) as process:
        assert process.stdout is not None
        while chunk := process.stdout.read(1 << 16):
            digest.update(chunk)
            lines += chunk.count(b"\n")
            last = time.perf_counter()
            if not first:
                first, at_first = last, lines
    whole = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Turn((lines - at_first) / (last - first), whole, cpu, digest.hexdigest())


def measure(folder: Path, path: Path, cores: int, rounds: int, more: list[str]) -> list[list[str]]:
    """Let settings take turns; return a row for each."""
    settings = [(1, 1), (1, cores), (cores, 1)]
    turns: dict[tuple[int, int], list[Turn]] = {setting: [] for setting in settings}
    for number in range(rounds):
        for setting in settings:
            say(f"{folder.name}, turn {number + 1}: {setting[0]} × {setting[1]}")
            turns[setting].append(translate(folder, path, *setting, more))
    if len({turn.digest for own in turns.values() for turn in own}) != 1:
        sys.exit(f"{folder}: the outputs differ")
    rows = []
    for (workers, threads), own in turns.items():
        ratios = [turn.rate / beside.rate for turn, beside in zip(own, turns[1, cores], strict=True)]
        rows.append(
            [
                f"{workers} × {threads}",
                f"{statistics.median(turn.rate for turn in own):,.0f}",
                f"{statistics.median(turn.whole for turn in own):.1f}",
                f"{statistics.median(turn.cpu for turn in own):.1f}",
                f"{statistics.median(ratios):.2f} ({min(ratios):.2f}–{max(ratios):.2f})",
            ]
        )
    return rows


def shares(folder: Path, path: Path, beam: int, cores: int) -> list[str]:
    """Count the processor time of what threads share and of the rest."""
    import torch

    from regard.decoding.native_search import in_threads, search_natively
    from regard.decoding.translator import Translator

    torch.set_num_threads(1)
    divided = 0.0

    def timed(work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            nonlocal divided
            start = time.process_time()
            try:
                return work(*given)
            finally:
                divided += time.process_time() - start

        return run

    translator = Translator.load(folder)
    lines = path.read_text(encoding="utf-8").splitlines()[:4096]
    translator.translate(lines[:64], beam=beam, look=False)  # compiles and prepares
    parts: dict[str, Any] = {"in_threads": timed(in_threads), "search_natively": timed(search_natively)}
    with mock.patch.multiple("regard.decoding.translator", **parts):
        start = time.process_time()
        deque(translator.stream(lines, beam=beam, look=False), maxlen=0)
        whole = time.process_time() - start
    rest = whole - divided
    bound = (rest + divided / cores) / (whole / cores)
    return [f"{len(lines) / whole:,.0f}", f"{100 * rest / whole:.0f}", f"{bound:.2f}"]


def main() -> None:
    """Measure all models."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("REGARD_BENCH_CACHE", Path.home() / ".cache/regard-bench"))
    parser.add_argument("--cache", type=Path, default=default, help="where models and the input are kept")
    parser.add_argument("--model", action="append", default=[], metavar="NAME=FOLDER", help="instead of those trained")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--lines", type=int, default=16 * 1024)
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--rounds", type=int, default=5, help="how often each is timed, in turns")
    parser.add_argument("--beams", default="1,5")
    parser.add_argument("--note", default="", help="what to say of the machine's other load")
    parser.add_argument("--no-results", action="store_true", help="print only; leave bench/results as it is")
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    models = {name: Path(folder) for name, _, folder in (one.partition("=") for one in given.model)}
    models = models or {name: train(given.cache, name, given.steps) for name in PRESETS}
    path = given.cache / f"bulk-{given.lines}.txt"
    if not path.is_file():
        write_lines(path, given.lines)
    rows = [
        [name, beam, *row]
        for name, folder in models.items()
        for beam in given.beams.split(",")
        for row in measure(folder, path, given.cores, given.rounds, ["--beam", beam])
    ]
    head = ["network", "beam", "processes × threads", "lines/s", "whole, s", "cpu, s", "ratio"]
    title = f"Translating a file of {given.lines:,} lines, {given.rounds} turns"
    write_result(
        "bulk", "\n".join(filter(None, [title, given.note, machine(), "", table(head, rows)])), not given.no_results
    )


if __name__ == "__main__":
    main()
