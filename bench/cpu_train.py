"""How fast regard and other toolkits train the same networks on the CPU: target tokens a second, side by side.

    python bench/cpu_train.py
    python bench/cpu_train.py --peers joeynmt,opennmt-py --models lstm-additive --rounds 5

All read Multi30k (English to German) in the same pieces, in batches of 64 sentences (regard: of as many tokens as 64
sentences have), with dropout, in float32, by Adam, on as many threads. They take turns, --rounds of --seconds each.
Counted are target tokens without padding, the end mark included; the clock runs on through batching and all else
between two steps. A number is that of all turns together ± half the way from the slowest turn to the fastest. "fill"
is the part of a padded target batch that is text. "regard ×" is regard's speed over the toolkit's.

The first run makes environments (some minutes) and cuts the data into pieces.
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

MODELS = {
    "lstm-additive": ("joeynmt", "opennmt-py", "eole"),
    "lstm-general": ("joeynmt", "opennmt-py"),
    "transformer": ("joeynmt", "opennmt-py", "eole", "marian"),
}
"""Which toolkits are measured with which network; eole's general attention is OpenNMT-py's."""
WORDS = {
    "lstm-additive": "LSTM, encoder 2×256, decoder 512, embeddings 256, additive attention, input feeding",
    "lstm-general": "the same with general attention",
    "transformer": "Transformer 3+3×256, feed-forward 1024, 4 heads, one embedding for all",
}


class Measured:
    """A worker and what it did in its turns."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.speed = Spread()
        self.tokens = self.steps = self.padded = 0
        self.seconds = 0.0

    def turn(self, seconds: float, clock: str) -> None:
        """Let it train for a while."""
        found = self.worker.ask(seconds=seconds, clock=clock)
        self.speed.values.append(found["tokens"] / found["seconds"][clock])
        self.seconds += found["seconds"][clock]
        self.tokens += found["tokens"]
        self.steps += found["steps"]
        self.padded += found["padded"]

    @property
    def rate(self) -> float:
        """Target tokens a second, over all turns."""
        return self.tokens / self.seconds

    def __str__(self) -> str:
        return f"{self.rate:,.0f} ± {self.speed.half:,.0f}"


def measure(model: str, names: list[str], settings: Settings, given: Namespace) -> list[Measured]:
    """Start all workers, then let them train in turns."""
    workers: list[Worker] = []
    try:
        for name in names:  # one after the other: warming up at once they would be in each other's way
            with locked():
                workers.append(Worker(name, model, "train", settings))
                workers[-1].ready()
            say(f"{model}: {name} is warm")
        every = [Measured(worker) for worker in workers]
        for number in range(given.rounds):
            with locked():
                for one in every:
                    one.turn(given.seconds, given.clock)
            speeds = ", ".join(f"{one.worker.name} {one.speed.values[-1]:,.0f}" for one in every)
            say(f"{model}: round {number + 1} of {given.rounds}: {speeds} tokens/s")
        return every
    finally:
        for worker in workers:
            worker.close()


def rows(model: str, every: list[Measured]) -> list[list[str]]:
    """Write what was measured of one network."""
    ours = next((one.rate for one in every if one.worker.name == "regard"), 0.0)
    made = []
    for one in every:
        about, beside = one.worker.about, one.worker.name != "regard"
        made.append(
            [
                model,
                f"{one.worker.name} {about['version']}",
                f"{about['parameters'] / 1e6:.2f} M",
                str(one),
                f"{one.tokens / one.steps:,.0f}",
                f"{one.tokens / one.padded:.0%}" if one.padded else "",
                f"{ours / one.rate:.2f}" if beside and ours else "",
            ]
        )
    return made


def main() -> None:
    """Measure and print."""
    parser = options(__doc__, ["joeynmt", "opennmt-py", "eole", "marian"])
    parser.add_argument("--models", default=",".join(MODELS), help="networks: " + ", ".join(MODELS))
    parser.add_argument("--seconds", type=float, default=7.0, help="how long a turn takes")
    given = parser.parse_args()
    settings = Settings(given.cache, threads=given.threads)
    prepare_data(settings.cache)
    asked = split(given.peers)
    for name in asked:
        environment(settings.cache, PEERS[name])
    found = []
    for model in split(given.models):
        names = ["regard", *(name for name in MODELS[model] if name in asked)]
        found += rows(model, measure(model, names, settings, given))
    head = ["network", "toolkit", "parameters", "tokens/s", "tokens/step", "fill", "regard ×"]
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
