"""How fast regard and Joey NMT translate on one GPU: 1,000 sentences, 64 at a time, greedy and beam search.

    python bench/gpu_decode.py --cache carry/bench --peer-folder carry/joeynmt

Data and Joey NMT are carried to the GPU's machine as for bench/gpu_train.py (--prepare there). Each toolkit first
trains its own models there for --trained steps, so that translations end where the model ends them; their mean length,
in pieces, stands beside the speed. regard translates from text to text, the other from pieces to pieces.
"""

from argparse import Namespace
from pathlib import Path
from typing import Any

from cpu_decode import Measured, bleu, inputs
from peers import Settings, Worker, locked, machine, options, prepare_data, say, split, table, train_model, write_result

WAYS = ("greedy", "beam")
KINDS: dict[str, dict[str, dict[str, Any]]] = {"regard": {"float32": {}}, "joeynmt": {"float32": {}}}


def measure(model: str, names: list[str], settings: Settings, given: Namespace) -> list[Measured]:
    """Start all workers, then let them translate in turns."""
    every: list[Measured] = []
    try:
        for name in names:
            for kind, more in KINDS[name].items():
                worker = Worker(name, model, "decode", settings, label=kind, **more)
                every.append(Measured(worker, kind))
                worker.ready()
        for number in range(given.rounds + 1):
            for way in WAYS:
                for one in every:
                    with locked():
                        one.turn(way, inputs(settings.cache / "data", one.worker.name, "test"), given)
                    if number == 0:  # graphs are captured and kernels chosen off the clock
                        one.found[way].values.clear()
            say(f"{model}: round {number} of {given.rounds}")
        return every
    finally:
        for one in every:
            one.worker.close()


def rows(model: str, every: list[Measured], data: Path) -> list[list[str]]:
    """Write what was measured of one network."""
    peer = next((one for one in every if one.worker.name != "regard"), None)
    return [
        [
            model,
            f"{one.worker.name} {one.worker.about['version']} {one.label}",
            str(one.found["greedy"]),
            str(one.found["beam"]),
            f"{one.length('greedy'):.1f} / {one.length('beam'):.1f}",
            f"{bleu(data, one.pieces['beam']):.2f}",
            f"{one.found['beam'].mean / peer.found['beam'].mean:.2f}" if peer and one is not peer else "",
        ]
        for one in every
    ]


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, ["joeynmt"])
    parser.add_argument("--peer-folder", type=Path, help="where Joey NMT lies unpacked")
    parser.add_argument("--models", default="bahdanau-additive,transformer")
    parser.add_argument("--trained", type=int, default=600, help="steps that the models are trained for")
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--enough", type=float, default=60.0, help="seconds after which a turn is not repeated")
    parser.add_argument("--device", default="cuda")
    given = parser.parse_args()
    folder = given.peer_folder.resolve() if given.peer_folder else None
    settings = Settings(
        given.cache.resolve(), given.device, given.threads, trained=given.trained, beam=given.beam, peer_folder=folder
    )
    data, names = prepare_data(settings.cache), ["regard", *split(given.peers)]
    found = []
    for model in split(given.models):
        for name in names:
            train_model(settings, name, model)
        found += rows(model, measure(model, names, settings, given), data)
    head = ["network", "toolkit", "greedy, /s", f"beam {given.beam}, /s", "pieces", "BLEU", "beam × Joey NMT"]
    text = "\n".join(
        [
            f"Translating 1,000 sentences on {given.device}, {given.rounds} turns; {given.trained} steps of training",
            machine(given.device),
            "",
            table(head, found),
        ]
    )
    write_result("gpu_decode", text, keep=not given.no_results)


if __name__ == "__main__":
    main()
