"""How fast regard and Joey NMT translate on one GPU: 1,000 sentences, greedy and beam search.

    python bench/gpu_decode.py --cache carry/bench --peer-folder carry/joeynmt

Data and Joey NMT are carried to the GPU's machine as for bench/gpu_train.py (--prepare there). Each toolkit first
trains its own models there for --trained steps, all at once, so that translations end where the model ends them; their
mean length, in pieces, stands beside the speed. What is in --made already is not trained again. regard translates from
text to text, the other from pieces to pieces.

Each is timed with 64 sentences in a batch, and with more: regard with as many as it takes by itself, Joey NMT with
--many. Ratios are to Joey NMT with the same batch of 64, and of the best to the best. A toolkit that fails is told of
and left out. After --budget seconds no new round is begun.
"""

import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cpu_decode import Measured, bleu, inputs
from peers import Settings, Worker, locked, machine, options, prepare_data, say, split, table, train_model, write_result

WAYS = ("greedy", "beam")
SAME = "64"
"""The batch that all have."""


def kinds(name: str, given: Namespace) -> dict[str, dict[str, Any]]:
    """Say how a toolkit is measured: by a name, and what its worker is told."""
    if name == "regard":
        return {SAME: {}, "own": {"batch": None}}
    return {SAME: {}, str(given.many): {"batch": given.many}}


def train_all(names: list[str], models: list[str], settings: Settings) -> set[tuple[str, str]]:
    """Train all models at once; return those that there are."""
    every = [(name, model) for model in models for name in names]

    def made(one: tuple[str, str]) -> bool:
        try:
            train_model(settings, *one)
        except SystemExit as error:
            say(f"{one[0]} {one[1]} is left out. {error}")
            return False
        return True

    with ThreadPoolExecutor(len(every)) as pool:
        return {one for one, fine in zip(every, pool.map(made, every), strict=True) if fine}


def measure(model: str, names: list[str], settings: Settings, given: Namespace, until: float) -> list[Measured]:
    """Start all workers, then let them translate in turns; who fails is out."""
    every: list[Measured] = []
    for name in names:
        for kind, more in kinds(name, given).items():
            every.append(Measured(Worker(name, model, "decode", settings, label=kind, **more), kind))
    started = list(every)

    def attempt(one: Measured, way: str | None) -> None:
        try:
            with locked():
                if way is None:
                    one.worker.ready()
                else:
                    one.turn(way, inputs(settings.cache / "data", one.worker.name, "test")[: given.sentences], given)
        except SystemExit as error:
            say(f"{one.worker.name} {model}, batch {one.label}, is left out. {error}")
            every.remove(one)

    try:
        for one in started:
            attempt(one, None)
        for number in range(given.rounds + 1):
            if number > 1 and time.monotonic() > until:
                break
            for way in WAYS:
                for one in started:
                    if one in every:
                        attempt(one, way)
                    if number == 0:  # graphs are recorded and kernels chosen off the clock
                        one.found[way].values.clear()
            speeds = [f"{one.worker.name} {one.label} {one.found['beam']}" for one in every if number]
            say(f"{model}: round {number} of {given.rounds}. {', '.join(speeds)}")
        return every
    finally:
        for one in started:
            one.worker.close()


def rows(model: str, every: list[Measured], data: Path) -> list[list[str]]:
    """Write what was measured of one network."""
    peers = [one for one in every if one.worker.name != "regard"]

    def ratio(one: Measured, way: str, of: list[Measured]) -> str:
        best = max((other.found[way].mean for other in of), default=0.0)
        return f"{one.found[way].mean / best:.1f}" if best and one.worker.name == "regard" else ""

    same = [one for one in peers if one.label == SAME]
    return [
        [
            model,
            f"{one.worker.name} {one.worker.about['version']}",
            f"{one.worker.about['parameters'] / 1e6:.2f} M",
            one.label,
            str(one.found["greedy"]),
            str(one.found["beam"]),
            str(len(one.found["beam"].values)),
            f"{one.length('greedy'):.1f} / {one.length('beam'):.1f}",
            f"{bleu(data, one.pieces['beam']):.2f}",
            *(ratio(one, way, same if one.label == SAME else []) for way in WAYS),
            *(ratio(one, way, peers) for way in WAYS),
        ]
        for one in every
    ]


def main() -> None:
    """Measure and print."""
    began = time.monotonic()
    parser = options(__doc__, ["joeynmt"])
    parser.add_argument("--peer-folder", type=Path, help="where Joey NMT lies unpacked")
    parser.add_argument("--made", type=Path, help="where trained models are kept (in --cache)")
    parser.add_argument("--models", default="lstm-additive,transformer")
    parser.add_argument("--trained", type=int, default=400, help="steps that the models are trained for")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--many", type=int, default=512, help="sentences in a large batch of Joey NMT's")
    parser.add_argument("--enough", type=float, default=60.0, help="seconds after which a turn is not repeated")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds after which no new round is begun")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    folder = given.peer_folder.resolve() if given.peer_folder else None
    settings = Settings(
        given.cache.resolve(), given.device, given.threads, trained=given.trained, beam=given.beam, peer_folder=folder,
        made=given.made.resolve() if given.made else None,
    )  # fmt: skip
    data, names, models = prepare_data(settings.cache), ["regard", *split(given.peers)], split(given.models)
    there = train_all(names, models, settings)
    say(f"Models are there after {time.monotonic() - began:.0f} s")
    found = []
    for number, model in enumerate(models, start=1):
        own = [name for name in names if (name, model) in there]
        left = given.budget - (time.monotonic() - began)
        until = time.monotonic() + left / (len(models) - number + 1)
        found += rows(model, measure(model, own, settings, given, until), data)
    head = ["network", "toolkit", "parameters", "batch", "greedy, /s", f"beam {given.beam}, /s", "turns"]
    head += ["pieces", "BLEU"]
    head += ["× same, greedy", "beam", "× best, greedy", "beam"]
    text = "\n".join(
        [
            f"Translating {given.sentences:,} sentences on {given.device}, up to {given.rounds} turns; "
            f"{given.trained} steps of training; ratios to Joey NMT",
            machine(given.device),
            "",
            table(head, found),
        ]
    )
    write_result("gpu_decode", text, keep=not given.no_results)
    say(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
