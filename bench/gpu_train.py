"""Compare the training speed of regard and Joey NMT on one GPU, with Bahdanau's system (H = 1000), in tokens/s.

The GPU's machine needs torch, Triton, numpy, safetensors, sentencepiece, sacrebleu and matplotlib, and no network: data
and toolkit are prepared elsewhere and copied there.

    python bench/gpu_train.py --cache carry/bench --peer-folder carry/joeynmt --prepare     # where there is a network
    python bench/gpu_train.py --cache carry/bench --peer-folder carry/joeynmt --whole 10900   # on the GPU's machine

Both read Multi30k (English to German) with the same subwords, in batches of --batch sentences (regard: the same number
of tokens), with Adam and dropout. Both train as in normal use, batching and logging included, and take turns. Reading
the text and the first steps are not timed (--warmup; for regard --recording, in which CUDA graphs are recorded). Target
tokens are counted without padding, with end token. A toolkit that fails is reported and left out; after --budget
seconds no new round is started.

With --whole STEPS, regard then trains a model from scratch in its fastest precision, alone, and everything is timed:
from the start of the process through reading and tokenizing the text, recording and all steps to saving the weights.
(Triton's kernels are in its cache from the turns before; tokens are steps times tokens per step in the turns.) Joey
NMT, which would take minutes, is counted at its steady rate, as if it started instantly.
"""

import time
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cpu_train import Measured
from peers import (
    Settings,
    Worker,
    carry,
    finish,
    locked,
    machine,
    options,
    prepare_data,
    say,
    split,
    table,
    write_result,
)

KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "regard": {kind: {"set": [f"training.precision={kind}"]} for kind in ("float32", "tf32", "bfloat16")},
    "joeynmt": {"float32": {}, "float16": {"half": True}},
}
"""The precisions that each has. regard records a graph for each shape of a batch, which takes some hundred steps."""


def measure(names: list[str], settings: Settings, given: Namespace) -> list[tuple[str, Measured]]:
    """Start all workers in parallel, then have them train in turns; one that fails is left out."""
    until = time.monotonic() + given.budget
    started: list[tuple[str, Measured]] = []
    for name in names:
        for kind, more in KINDS[name].items():
            more = {**more, "warmup": given.recording} if name == "regard" else more
            started.append((kind, Measured(Worker(name, given.model, "train", settings, label=kind, **more))))
    every = list(started)

    def attempt(one: tuple[str, Measured], ready: bool) -> None:
        kind, measured = one
        try:
            with locked():
                if ready:
                    measured.turn(given.seconds, "wall")
                else:
                    measured.worker.ready()
                    say(f"{measured.worker.name} {kind} is warm")
        except SystemExit as error:
            say(f"{measured.worker.name} {kind} is left out. {error}")
            every.remove(one)

    try:
        for number in range(given.rounds + 1):
            if number > 1 and time.monotonic() > until:
                break
            for one in started:
                if one in every:
                    attempt(one, ready=number > 0)
            if number:
                speeds = (f"{one.worker.name} {kind} {one.speed.values[-1]:,.0f}" for kind, one in every)
                say(f"round {number} of {given.rounds}: {', '.join(speeds)} tokens/s")
        return every
    finally:
        for _, measured in started:
            measured.worker.close()


def whole(every: list[tuple[str, Measured]], settings: Settings, given: Namespace) -> str:
    """Time a whole training run of regard in its fastest precision, alone; return a line on it, or on its failure."""
    own = {kind: one for kind, one in every if one.worker.name == "regard"}
    peers = [one.rate for _, one in every if one.worker.name != "regard"]
    if not own:
        return f"{given.whole:,} steps from start to end: left out, since regard failed before."
    kind, one = max(own.items(), key=lambda item: item[1].rate)
    more = {**KINDS["regard"][kind], "steps": given.whole, "label": f"{kind}-whole"}
    with locked(), TemporaryDirectory() as folder:
        began = time.perf_counter()
        try:
            finish(Worker("regard", given.model, "train", replace(settings, made=Path(folder)), **more))
        except SystemExit as error:
            return f"{given.whole:,} steps from start to end: left out. {error}"
        seconds = time.perf_counter() - began
    tokens = given.whole * one.tokens / one.steps
    ratio = f", {tokens / seconds / max(peers):.2f} times Joey NMT's fastest rate under way" if peers else ""
    before = seconds - tokens / one.rate
    return (
        f"{given.whole:,} steps of regard in {kind}, once, from the start of the process to the weights on the disk: "
        f"{seconds:.1f} s,\n{tokens / seconds:,.0f} tokens/s{ratio}; at its own rate under way it would be "
        f"{before:.1f} s less"
    )


def rows(every: list[tuple[str, Measured]]) -> list[list[str]]:
    """Write what was measured; the ratio is to Joey NMT at its fastest."""
    peers = [one.rate for _, one in every if one.worker.name != "regard"]
    return [
        [
            f"{one.worker.name} {one.worker.about['version']}",
            kind,
            f"{one.worker.about['parameters'] / 1e6:.2f} M",
            str(one),
            str(len(one.speed.values)),
            f"{one.tokens / one.steps:,.0f}",
            f"{1000 * one.seconds / one.steps:,.1f}",
            f"{one.rate / max(peers):.2f}" if peers and one.worker.name == "regard" else "",
        ]
        for kind, one in every
    ]


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, ["joeynmt"])
    parser.add_argument("--peer-folder", type=Path, help="where Joey NMT lies unpacked")
    parser.add_argument("--prepare", action="store_true", help="make data and folder only; needs a network")
    parser.add_argument("--model", default="bahdanau-additive", help="bahdanau-additive, lstm-additive, transformer")
    parser.add_argument("--batch", type=int, default=80)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long a turn takes")
    parser.add_argument("--warmup", type=int, default=30, help="steps off the clock")
    parser.add_argument("--recording", type=int, default=400, help="the same for regard, which records graphs in them")
    parser.add_argument("--whole", type=int, default=0, help="steps of a training that is timed as a whole; 0: none")
    parser.add_argument("--budget", type=float, default=100.0, help="seconds after which no new round is begun")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    settings = Settings(given.cache.resolve(), given.device, given.threads, given.batch, warmup=given.warmup)
    prepare_data(settings.cache)
    if given.peer_folder:
        settings.peer_folder = given.peer_folder.resolve()
    if given.prepare:
        assert settings.peer_folder, "--prepare makes --peer-folder: say where"
        carry(settings.peer_folder)
        return
    every = measure(["regard", *split(given.peers)], settings, given)
    found = rows(every)
    head = ["toolkit", "precision", "parameters", "tokens/s", "turns", "tokens/step", "ms/step", "× Joey NMT"]
    text = "\n".join(
        [
            f"Training {given.model} on {given.device}, up to {given.rounds} turns of {given.seconds:g} s each",
            machine(given.device),
            "",
            table(head, found),
        ]
    )
    if given.whole:
        text += f"\n\n{whole(every, settings, given)}"
    write_result(f"gpu_train_{given.model}", text, keep=not given.no_results and given.device == "cuda")


if __name__ == "__main__":
    main()
