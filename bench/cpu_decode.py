"""How fast regard and other toolkits translate with the same networks on the CPU, side by side.

    python bench/cpu_decode.py
    python bench/cpu_decode.py --peers opennmt-py,ctranslate2 --models transformer
    python bench/cpu_decode.py --peers joeynmt,opennmt-py --regard lstm-additive=FOLDER --regard transformer=FOLDER

All translate the 1,000 test sentences of Multi30k (English to German; 14.2 pieces each on average), 64 at a time, by
greedy search and by beam search, and the first of them one by one. Joey NMT, OpenNMT-py and CTranslate2 have regard's
weights (workers/to_joey.py, to_opennmt.py), so that all write the same; "same, %" is how many translations are those of
regard's exact search, piece by piece (greedy / beam). eole and Marian train models of their own for as many steps as
regard (--trained) and end where these end: the mean length in pieces (greedy / beam) stands beside the speed, and
pieces a second. regard's model is trained here too, where --regard MODEL=FOLDER does not name a better one. "BLEU" is
sacreBLEU's of the beam search.

Hypotheses are ranked by their probability alone (--length-penalty 0): that is the same in all toolkits, but where one
reaches the most pieces (40) without an end: regard takes any other that has ended, Joey NMT the more probable one
(gpu_decode.py says how their searches differ). With 1, regard, Joey NMT, OpenNMT-py and eole divide its logarithm by
(5 + length) / 6 (the last two count the begin mark too), Marian and CTranslate2 by the length; and where hypotheses are
ranked so, only regard's exact search goes on until no other can win. That result is written beside the other one
(cpu_decode_penalty.txt).

regard translates from text to text, as `regard translate` does; all others get and give pieces. "exact" is float32,
"fast" is `regard translate --fast`. For many sentences CTranslate2 has a worker for each thread, for one sentence all
threads (int8: one).

Toolkits take turns. A turn that takes longer than --enough seconds is not repeated, and a toolkit whose greedy search
takes that long gets a quarter of the sentences for its beam search.
"""

import os
import statistics
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any

from peers import (
    CONVERTED,
    PEERS,
    ROOT,
    Settings,
    Spread,
    Worker,
    environment,
    locked,
    machine,
    model_folder,
    options,
    prepare_data,
    say,
    split,
    table,
    train_model,
    write_result,
)

MODELS = {
    "lstm-additive": ("joeynmt", "opennmt-py"),
    "transformer": ("joeynmt", "opennmt-py", "eole", "marian", "ctranslate2"),
}
KINDS: dict[str, dict[str, dict[str, Any]]] = {
    "regard": {"exact": {}, "fast": {"fast": True}},
    "ctranslate2": {"float32": {"precision": "float32"}, "int8": {"precision": "int8"}},
}
"""Toolkits that are measured in several ways."""
WAYS = ("greedy", "beam", "single")


class Measured:
    """A worker, and what it did in its turns."""

    def __init__(self, worker: Worker, label: str) -> None:
        self.worker, self.label = worker, label
        self.found: dict[str, Spread] = {way: Spread() for way in WAYS}
        self.pieces: dict[str, list[list[str]]] = {}

    def share(self, way: str, lines: list[str], given: Namespace) -> list[str]:
        """Return what it translates: one that is slow by greedy search already gets a quarter for its beam search."""
        if way == "single":
            return lines[: given.singles]
        lines = lines[: given.sentences]
        slow = way == "beam" and self.took("greedy", len(lines)) > given.enough
        return lines[: max(1, len(lines) // 4)] if slow else lines

    def turn(self, way: str, lines: list[str], given: Namespace) -> None:
        """Let it translate: sentences a second, or milliseconds for one."""
        spread = self.found[way]
        if spread.values and self.took(way, len(lines)) > given.enough:
            return
        single = way == "single"
        found = self.worker.ask(lines=lines, beam=1 if way == "greedy" else given.beam, single=single)
        seconds = found["seconds"][given.clock]
        spread.values.append(1000 * statistics.median(seconds) if single else len(lines) / sum(seconds))
        self.pieces[way] = found["pieces"]

    def took(self, way: str, count: int) -> float:
        """Return how long the last turn took, in seconds."""
        value = self.found[way].values[-1]
        return count * value / 1000 if way == "single" else count / value

    def length(self, way: str) -> float:
        """Return how long its translations are on average, in pieces."""
        return statistics.fmean(len(pieces) for pieces in self.pieces[way])

    def same(self, way: str, other: "Measured") -> float:
        """Return how many of its translations are those of another, in per cent."""
        pairs = list(zip(self.pieces[way], other.pieces[way], strict=False))  # a slow one has fewer
        return 100 * statistics.fmean(one == another for one, another in pairs)


def measure(model: str, names: list[str], settings: Settings, given: Namespace) -> list[Measured]:
    """Start all workers, then let them translate in turns."""
    every: list[Measured] = []
    lines = {name: texts(settings, name, model) for name in names}
    try:
        for name in names:
            for kind, more in KINDS.get(name, {"": {}}).items():
                with locked():
                    worker = Worker(name, model, "decode", settings, label=kind, **more)
                    every.append(Measured(worker, kind))
                    worker.ready()
                    for way in WAYS:  # once, off the clock
                        few = lines[name][-8:]
                        worker.ask(lines=few, beam=1 if way == "greedy" else given.beam, single=way == "single")
                say(f"{model}: {name} {kind} is warm")
        for number in range(given.rounds):
            for way in WAYS:
                for one in every:
                    with locked():
                        one.turn(way, one.share(way, lines[one.worker.name], given), given)
            say(f"{model}: round {number + 1} of {given.rounds}")
        return every
    finally:
        for one in every:
            one.worker.close()


def texts(settings: Settings, name: str, model: str) -> list[str]:
    """Return the test sentences; who has regard's weights reads the pieces of its tokenizer."""
    if name in CONVERTED:
        return (model_folder(settings, name, model) / "test.en").read_text(encoding="utf-8").split("\n")[:-1]
    return inputs(settings.cache / "data", name, "test")


def inputs(data: Path, name: str, part: str) -> list[str]:
    """Return what a toolkit reads: regard reads text, the others pieces."""
    file = f"{part}.en" if name == "regard" else f"{part}.bpe.en"
    return (data / file).read_text(encoding="utf-8").split("\n")[:-1]


def bleu(data: Path, pieces: list[list[str]]) -> float:
    """Return sacreBLEU's BLEU of pieces put together."""
    import sacrebleu

    texts = ["".join(line).replace("▁", " ").strip() for line in pieces]
    references = (data / "test.de").read_text(encoding="utf-8").split("\n")[: len(texts)]
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def rows(model: str, every: list[Measured], data: Path) -> list[list[str]]:
    """Write what was measured of one network; the first is regard's exact search."""
    made = []
    for one in every:
        alike = one.worker.name in ("regard", *CONVERTED)
        made.append(
            [
                model,
                " ".join(filter(None, [one.worker.name, one.worker.about["version"], one.label])),
                f"{one.worker.about['parameters'] / 1e6:.2f} M" if one.worker.about["parameters"] else "",
                str(one.found["greedy"]),
                str(one.found["beam"]),
                " / ".join(str(len(one.found[way].values)) for way in ("greedy", "beam")),
                f"{one.found['single'].mean:,.1f} ± {one.found['single'].half:,.1f}",
                f"{one.length('greedy'):.1f} / {one.length('beam'):.1f}",
                " / ".join(f"{one.found[way].mean * one.length(way):,.0f}" for way in ("greedy", "beam")),
                " / ".join(f"{one.same(way, every[0]):.1f}" for way in ("greedy", "beam")) if alike else "",
                f"{bleu(data, one.pieces['beam']):.2f}",
            ]
        )
    return made


def start_up(settings: Settings, names: list[str], model: Path) -> list[list[str]]:
    """Time what a person waits for before anything happens: the best of three, in seconds."""
    found = []
    regard = str(Path(sys.executable).parent / "regard")
    commands: list[tuple[str, list[str]]] = [("regard --help", [regard, "--help"])]
    for fast in ([], ["--fast"]):
        what = " ".join(["regard translate", *fast, "to its end, one sentence"])
        commands.append((what, [regard, "translate", *fast, str(model)]))
    for name in names:
        if PEERS[name].command:
            python = str(environment(settings.cache, PEERS[name]))
            commands.append((f"{name} --help", [python, *PEERS[name].command]))
    for what, command in commands:
        with locked():
            found.append([what, "", f"{min(_seconds(command) for _ in range(3)):.2f}"])
    return found


def _seconds(command: list[str]) -> float:
    began = time.perf_counter()
    # Modules are compiled once, as they are for everybody who does not forbid it; the best of three has them.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # No time goes into typing: what is read is there at once, and ends after one line.
    subprocess.run(command, input=b"A man sleeps.\n", capture_output=True, check=True, cwd=ROOT, env=environ)
    return time.perf_counter() - began


def translating(description: str | None, peers: list[str]) -> ArgumentParser:
    """Return a parser with what the benches of decoding take."""
    parser = options(description, peers)
    parser.add_argument("--models", default=",".join(MODELS), help="networks: " + ", ".join(MODELS))
    parser.add_argument("--trained", type=int, default=1200, help="steps that the models are trained for")
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--beam", type=int, default=5)
    parser.add_argument("--length-penalty", type=float, default=0.0, help="its alpha; 0: none")
    parser.add_argument("--enough", type=float, default=60.0, help="seconds after which a turn is not repeated")
    parser.add_argument("--regard", action="append", default=[], metavar="MODEL=FOLDER", help="a model of ours")
    return parser


def settings_of(given: Namespace) -> Settings:
    """Return what all workers are told."""
    settings = Settings(
        given.cache.resolve(), threads=given.threads, trained=given.trained, beam=given.beam,
        length_penalty=given.length_penalty,
    )  # fmt: skip
    for text in given.regard:
        name, _, folder = text.partition("=")
        settings.ours[name] = Path(folder).resolve()
    return settings


def which(given: Namespace, settings: Settings) -> str:
    """Say which models were measured, and how hypotheses are ranked."""
    asked = [name for name in split(given.peers) if name in CONVERTED]
    shared = f"{', '.join(asked)} with regard's weights; " if asked else ""
    own = "".join(f"; {model} of regard: {folder.name}" for model, folder in settings.ours.items())
    trained = f"Models trained for {given.trained} steps of 64 sentences{own}"
    return f"{trained}\n{shared}length penalty {given.length_penalty:g}"


def main() -> None:
    """Measure and print."""
    parser = translating(__doc__, ["joeynmt", "opennmt-py", "eole", "marian", "ctranslate2"])
    parser.set_defaults(rounds=2)
    parser.add_argument("--singles", type=int, default=30, help="sentences that are translated one by one")
    parser.add_argument("--prepare", action="store_true", help="make environments and train models only")
    given = parser.parse_args()
    settings = settings_of(given)
    data, asked, models = prepare_data(settings.cache), split(given.peers), split(given.models)
    for name in asked:
        environment(settings.cache, PEERS[name])
    chosen = {model: ["regard", *(name for name in MODELS[model] if name in asked)] for model in models}
    for model, names in chosen.items():
        for name in names:
            train_model(settings, name, model)
    if given.prepare:
        return
    found = []
    for model, names in chosen.items():
        found += rows(model, measure(model, names, settings, given), data)
    head = ["network", "toolkit", "parameters", "greedy, /s", f"beam {given.beam}, /s", "turns", "one, ms"]
    head += ["pieces", "pieces/s", "same, %", "BLEU"]
    started = start_up(settings, asked, model_folder(settings, "regard", models[0]))
    text = "\n".join(
        [
            f"Translating {given.sentences} sentences on the CPU, {given.threads} threads, up to {given.rounds} turns",
            *(["Seconds are those of the processor: the machine was not ours alone."] if given.clock == "cpu" else []),
            which(given, settings),
            machine(),
            "",
            table(head, found),
            "",
            table(["start-up", "", "seconds"], started),
        ]
    )
    write_result("cpu_decode_penalty" if given.length_penalty else "cpu_decode", text, keep=not given.no_results)


if __name__ == "__main__":
    main()
