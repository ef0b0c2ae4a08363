"""Compare the training speed of regard and other toolkits with the same networks on the CPU, in target tokens/s.

    python bench/cpu_train.py
    python bench/cpu_train.py --peers joeynmt,opennmt-py --models lstm-additive --rounds 5

All read Multi30k (English to German) with the same subwords, in batches of 64 sentences (regard: the same number of
tokens), with dropout, without label smoothing, with Adam, the same number of threads, and in float32; regard also in
bfloat16 if the CPU supports it. They take turns: --rounds of --seconds each. Target tokens are counted without padding,
with end token; the time includes batching and everything else between steps. Numbers are over all turns ± half the
range of the turns. "fill" is the share of a padded target batch that is not padding. "float32 ×" and "bfloat16 ×" are
the ratios of regard's speed to the toolkit's.

Each toolkit batches as it does by default. Joey NMT takes sentences in random order: it has no buckets, and its default
batch_type, which its recurrent examples keep, is "sentence"; so half of its computation is padding.

The first run makes environments (some minutes) and tokenizes the data.
"""

from argparse import Namespace

from peers import (
    PEERS,
    Settings,
    Spread,
    Worker,
    environment,
    locked,
    machine,
    options,
    prepare_data,
    say,
    split,
    table,
    write_result,
)

from regard.prepacked_matmul import multiplies_bfloat16

MODELS = {
    "lstm-additive": ("joeynmt", "opennmt-py", "eole"),
    "lstm-general": ("joeynmt", "opennmt-py"),
    "transformer": ("joeynmt", "opennmt-py", "eole", "marian"),
}
"""The toolkits measured with each network; eole's general attention is OpenNMT-py's."""
WORDS = {
    "lstm-additive": "LSTM, encoder 2×256, decoder 512, embeddings 256, additive attention, input feeding",
    "lstm-general": "the same with general attention",
    "transformer": "Transformer 3+3×256, feed-forward 1024, 4 heads, one embedding for all",
}


PRECISIONS = ("float32", "bfloat16")
"""The precisions that regard is measured in."""


class Measured:
    """A worker and its measurements."""

    def __init__(self, worker: Worker, precision: str = "float32") -> None:
        self.worker, self.precision = worker, precision
        self.speed = Spread()
        self.tokens = self.steps = self.padded = 0
        self.seconds = 0.0

    def turn(self, seconds: float, clock: str) -> None:
        """Run one turn of training."""
        found = self.worker.ask(seconds=seconds, clock=clock)
        self.speed.values.append(found["tokens"] / found["seconds"][clock])
        self.seconds += found["seconds"][clock]
        self.tokens += found["tokens"]
        self.steps += found["steps"]
        self.padded += found["padded"]

    @property
    def rate(self) -> float:
        """Target tokens per second, over all turns."""
        return self.tokens / self.seconds

    def __str__(self) -> str:
        return f"{self.rate:,.0f} ± {self.speed.half:,.0f}"


def measure(model: str, names: list[str], settings: Settings, given: Namespace) -> list[Measured]:
    """Start all workers, then have them train in turns."""
    every: list[Measured] = []
    ours = [
        ("regard", kind, {"label": kind, "set": [f"training.precision={kind}"]}) for kind in split(given.precisions)
    ]
    try:
        # Warm up one after the other, since they would slow each other down.
        for name, kind, more in [*ours, *((name, "float32", {}) for name in names)]:
            with locked():
                every.append(Measured(Worker(name, model, "train", settings, **more), kind))
                every[-1].worker.ready()
            say(f"{model}: {name} {kind} is warm")
        for number in range(given.rounds):
            with locked():
                for one in every:
                    one.turn(given.seconds, given.clock)
            speeds = ", ".join(f"{one.worker.name} {one.precision} {one.speed.values[-1]:,.0f}" for one in every)
            say(f"{model}: round {number + 1} of {given.rounds}: {speeds} tokens/s")
        return every
    finally:
        for one in every:
            one.worker.close()


def rows(model: str, every: list[Measured], precisions: list[str]) -> list[list[str]]:
    """Return the table rows of one network."""
    ours = {one.precision: one.rate for one in every if one.worker.name == "regard"}
    made = []
    for one in every:
        about = one.worker.about
        made.append(
            [
                model,
                f"{one.worker.name} {about['version']}",
                one.precision,
                f"{about['parameters'] / 1e6:.2f} M",
                str(one),
                f"{one.tokens / one.steps:,.0f}",
                f"{one.tokens / one.padded:.0%}" if one.padded else "",
                *("" if one.worker.name == "regard" else f"{ours[kind] / one.rate:.2f}" for kind in precisions),
            ]
        )
    return made


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, ["joeynmt", "opennmt-py", "eole", "marian"])
    parser.add_argument("--models", default=",".join(MODELS), help="networks: " + ", ".join(MODELS))
    parser.add_argument("--seconds", type=float, default=7.0, help="how long a turn takes")
    there = PRECISIONS if multiplies_bfloat16() else PRECISIONS[:1]
    parser.add_argument("--precisions", default=",".join(there), help="what regard trains in: " + ", ".join(PRECISIONS))
    given = parser.parse_args()
    settings = Settings(given.cache.resolve(), threads=given.threads)
    prepare_data(settings.cache)
    asked = split(given.peers)
    for name in asked:
        environment(settings.cache, PEERS[name])
    found = []
    for model in split(given.models):
        names = [name for name in MODELS[model] if name in asked]
        found += rows(model, measure(model, names, settings, given), split(given.precisions))
    ratios = [f"{kind} ×" for kind in split(given.precisions)]
    head = ["network", "toolkit", "precision", "parameters", "tokens/s", "tokens/step", "fill", *ratios]
    text = "\n".join(
        [
            f"Training on the CPU, {given.threads} threads, {given.rounds} turns of {given.seconds:g} s each",
            *(["Seconds are those of the processor: the machine was not ours alone."] if given.clock == "cpu" else []),
            machine(),
            "",
            *(f"{model}: {WORDS[model]}" for model in split(given.models)),
            "",
            table(head, found),
        ]
    )
    write_result("cpu_train", text, keep=not given.no_results)


if __name__ == "__main__":
    main()
