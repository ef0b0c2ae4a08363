"""Compare the translation speed of regard and other toolkits with the same networks on the CPU.

    python bench/cpu_decode.py
    python bench/cpu_decode.py --peers opennmt-py,ctranslate2 --models transformer
    python bench/cpu_decode.py --peers joeynmt,opennmt-py --regard lstm-additive=FOLDER --regard transformer=FOLDER

All translate the 1,000 test sentences of Multi30k (English to German; 14.2 subwords each on average) in batches of 64,
by greedy search and by beam search, and the first sentences one by one. Joey NMT, OpenNMT-py and CTranslate2 use
regard's weights (workers/to_joey.py, to_opennmt.py) and so should give the same output: "same, %" is the share of
translations identical to those of regard's exact search (greedy / beam). eole and Marian train their own models for as
many steps as regard (--trained), so their outputs differ in length: the table has the mean length in subwords (greedy /
beam) and subwords per second too. regard's model is trained here unless --regard MODEL=FOLDER names one. "BLEU" is
sacreBLEU's, of the beam search.

Hypotheses are ranked by their probability alone (--length-penalty 0). This is the same in all toolkits, except when a
hypothesis reaches the maximum length (40) without an end token: regard prefers any finished one, Joey NMT the more
probable one (gpu_decode.py explains how their searches differ). With 1, regard, Joey NMT, OpenNMT-py and eole divide
the log-probability by (5 + length) / 6 (the last two count the start token too), Marian and CTranslate2 by the length;
and then only regard's exact search continues until no other hypothesis can win. The result with 1 goes to
cpu_decode_penalty.txt.

regard translates from text to text, as `regard translate` does; all others read and write subwords. "exact" is float32,
"fast" is `regard translate --fast`. CTranslate2 has one worker per thread for many sentences, and all threads for one
sentence (int8: one thread).

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
"""Toolkits that are measured in several configurations."""
WAYS = ("greedy", "beam", "single")


class Measured:
    """A worker and its measurements."""

    def __init__(self, worker: Worker, label: str) -> None:
        self.worker, self.label = worker, label
        self.found: dict[str, Spread] = {way: Spread() for way in WAYS}
        self.pieces: dict[str, list[list[str]]] = {}

    def share(self, way: str, lines: list[str], given: Namespace) -> list[str]:
        """Return the sentences to translate: a quarter for the beam search of a toolkit with slow greedy search."""
        if way == "single":
            return lines[: given.singles]
        lines = lines[: given.sentences]
        slow = way == "beam" and self.took("greedy", len(lines)) > given.enough
        return lines[: max(1, len(lines) // 4)] if slow else lines

    def turn(self, way: str, lines: list[str], given: Namespace) -> None:
        """Run one turn and record sentences per second, or milliseconds per sentence."""
        spread = self.found[way]
        if spread.values and self.took(way, len(lines)) > given.enough:
            return
        single = way == "single"
        found = self.worker.ask(lines=lines, beam=1 if way == "greedy" else given.beam, single=single)
        seconds = found["seconds"][given.clock]
        spread.values.append(1000 * statistics.median(seconds) if single else len(lines) / sum(seconds))
        self.pieces[way] = found["pieces"]

    def took(self, way: str, count: int) -> float:
        """Return the duration of the last turn in seconds."""
        value = self.found[way].values[-1]
        return count * value / 1000 if way == "single" else count / value

    def length(self, way: str) -> float:
        """Return the mean length of its translations in subwords."""
        return statistics.fmean(len(pieces) for pieces in self.pieces[way])

    def same(self, way: str, other: "Measured") -> float:
        """Return the percentage of its translations that equal another's."""
        pairs = list(zip(self.pieces[way], other.pieces[way], strict=False))  # a slow one has fewer
        return 100 * statistics.fmean(one == another for one, another in pairs)


def measure(model: str, names: list[str], settings: Settings, given: Namespace) -> list[Measured]:
    """Start all workers, then have them translate in turns."""
    every: list[Measured] = []
    lines = {name: texts(settings, name, model) for name in names}
    try:
        for name in names:
            for kind, more in KINDS.get(name, {"": {}}).items():
                with locked():
                    worker = Worker(name, model, "decode", settings, label=kind, **more)
                    every.append(Measured(worker, kind))
                    worker.ready()
                    for way in WAYS:  # warm-up
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
    """Return the test sentences; toolkits with regard's weights read the subwords of its tokenizer."""
    if name in CONVERTED:
        return (model_folder(settings, name, model) / "test.en").read_text(encoding="utf-8").split("\n")[:-1]
    return inputs(settings.cache / "data", name, "test")


def inputs(data: Path, name: str, part: str) -> list[str]:
    """Return a toolkit's input: text for regard, subwords for the others."""
    file = f"{part}.en" if name == "regard" else f"{part}.bpe.en"
    return (data / file).read_text(encoding="utf-8").split("\n")[:-1]


def bleu(data: Path, pieces: list[list[str]]) -> float:
    """Return sacreBLEU's BLEU of detokenized subwords."""
    import sacrebleu

    texts = ["".join(line).replace("▁", " ").strip() for line in pieces]
    references = (data / "test.de").read_text(encoding="utf-8").split("\n")[: len(texts)]
    return float(sacrebleu.corpus_bleu(texts, [references]).score)


def rows(model: str, every: list[Measured], data: Path) -> list[list[str]]:
    """Return the table rows of one network; the first is regard's exact search."""
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
    """Measure the start-up time: the best of three, in seconds."""
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
    # Python's bytecode cache is used, as by default; the best of three has it warm.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # The input is one line that is available at once.
    subprocess.run(command, input=b"A man sleeps.\n", capture_output=True, check=True, cwd=ROOT, env=environ)
    return time.perf_counter() - began


def translating(description: str | None, peers: list[str]) -> ArgumentParser:
    """Return a parser with the options of the decoding benchmarks."""
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
    """Return the settings of all workers."""
    settings = Settings(
        given.cache.resolve(), threads=given.threads, trained=given.trained, beam=given.beam,
        length_penalty=given.length_penalty,
    )  # fmt: skip
    for text in given.regard:
        name, _, folder = text.partition("=")
        settings.ours[name] = Path(folder).resolve()
    return settings


def which(given: Namespace, settings: Settings) -> str:
    """Return a description of the models, and of how hypotheses are ranked."""
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
