"""Compare the translation speed of regard and Joey NMT on one GPU: 1,000 sentences, greedy and beam search.

    python bench/gpu_decode.py --cache carry/bench --peer-folder carry/joeynmt
    python bench/gpu_decode.py ... --regard lstm-additive=FOLDER --regard transformer=FOLDER

Data and Joey NMT are carried to the GPU's machine as for bench/gpu_train.py (--prepare there). regard's models are
trained there for --trained steps, in parallel, unless --regard MODEL=FOLDER names one or --made has it.
Joey NMT uses regard's weights (workers/to_joey.py); "same, %" is the share of translations identical to those of regard
in batches of 64 (greedy / beam): a GPU's rounding may change a few. regard translates from text to text, Joey NMT from
subwords to subwords.

Hypotheses are ranked by their probability alone (--length-penalty 0), and both then give the same output (on a CPU in
float32, 1,000 of 1,000 by greedy search, 1,000 and 999 with beam 5). Their beam searches differ: Joey NMT extends
hypotheses beyond their end token too and stops when each slot of the beam has had a finished one; regard sets finished
hypotheses aside and stops when none can beat them. So Joey NMT makes 39 of the 40 allowed steps in a batch of 64, for
translations of 13 subwords (counted on a CPU, with the LSTM after 1,200 steps); its own limit, 1.5 times the longest
source of a batch, would be 45 on average. Without a penalty no hypothesis improves by growing, so Joey NMT's early stop
seldom matters. With 1 both divide by (5 + length) / 6, and for 2 % of the LSTM's sentences Joey NMT stops before the
better hypothesis is finished. When a hypothesis reaches the maximum length (40) without an end token, regard prefers
any finished one, Joey NMT the more probable one.

Each is timed with batches of 64 sentences and with larger ones: regard with its default batch size, Joey NMT with
--many. Ratios are to Joey NMT with batches of 64, and of the best to the best. A toolkit that fails is
reported and left out. After --budget seconds no new round is started.
"""

import time
from argparse import Namespace
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cpu_decode import Measured, bleu, settings_of, texts, translating, which
from peers import Settings, Worker, locked, machine, prepare_data, say, split, table, train_model, write_result

WAYS = ("greedy", "beam")
SAME = "64"
"""The batch that all have."""


def kinds(name: str, given: Namespace) -> dict[str, dict[str, Any]]:
    """Return the configurations of a toolkit: a name, and the settings of its worker."""
    if name == "regard":
        return {SAME: {}, "own": {"batch": None}}
    return {SAME: {}, str(given.many): {"batch": given.many}}


def make_all(names: list[str], models: list[str], settings: Settings) -> dict[str, list[str]]:
    """Train regard's models in parallel and convert them for the others; return the toolkits that have each model."""

    def made(model: str) -> list[str]:
        there = []
        for name in names:
            try:
                train_model(settings, name, model)
                there.append(name)
            except SystemExit as error:
                say(f"{name} {model} is left out. {error}")
        return there

    with ThreadPoolExecutor(len(models)) as pool:
        return dict(zip(models, pool.map(made, models), strict=True))


def measure(model: str, names: list[str], settings: Settings, given: Namespace, until: float) -> list[Measured]:
    """Start all workers, then have them translate in turns; one that fails is left out."""
    every: list[Measured] = []
    lines = {name: texts(settings, name, model)[: given.sentences] for name in names}
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
                    one.turn(way, lines[one.worker.name], given)
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
    """Return the table rows of one network."""
    first = next((one for one in every if (one.worker.name, one.label) == ("regard", SAME)), None)
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
            " / ".join(f"{one.same(way, first):.1f}" for way in WAYS) if first else "",
            f"{bleu(data, one.pieces['beam']):.2f}",
            *(ratio(one, way, same if one.label == SAME else []) for way in WAYS),
            *(ratio(one, way, peers) for way in WAYS),
        ]
        for one in every
    ]


def main() -> None:
    """Measure and print."""
    began = time.monotonic()
    parser = translating(__doc__, ["joeynmt"])
    parser.add_argument("--peer-folder", type=Path, help="where Joey NMT lies unpacked")
    parser.add_argument("--made", type=Path, help="where trained models are kept (in --cache)")
    parser.add_argument("--many", type=int, default=512, help="sentences in a large batch of Joey NMT's")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds after which no new round is begun")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    settings = settings_of(given)
    settings.device = given.device
    settings.peer_folder = given.peer_folder.resolve() if given.peer_folder else None
    settings.made = given.made.resolve() if given.made else None
    data, names, models = prepare_data(settings.cache), ["regard", *split(given.peers)], split(given.models)
    there = make_all(names, models, settings)
    say(f"Models are there after {time.monotonic() - began:.0f} s")
    found = []
    for number, model in enumerate(models, start=1):
        left = given.budget - (time.monotonic() - began)
        until = time.monotonic() + left / (len(models) - number + 1)
        found += rows(model, measure(model, there[model], settings, given, until), data)
    head = ["network", "toolkit", "parameters", "batch", "greedy, /s", f"beam {given.beam}, /s", "turns"]
    head += ["pieces", "same, %", "BLEU"]
    head += ["× same, greedy", "beam", "× best, greedy", "beam"]
    text = "\n".join(
        [
            f"Translating {given.sentences:,} sentences on {given.device}, up to {given.rounds} turns; "
            "ratios to Joey NMT",
            which(given, settings),
            machine(given.device),
            "",
            table(head, found),
        ]
    )
    write_result(
        "gpu_decode_penalty" if given.length_penalty else "gpu_decode",
        text,
        keep=not given.no_results and given.device == "cuda",
    )
    say(f"{time.monotonic() - began:.0f} s in all")


if __name__ == "__main__":
    main()
