"""What a person sees while a model trains: a bar on a terminal, plain lines in a log. All of it goes to stderr."""

import sys
from collections.abc import Mapping
from typing import IO, Any, NamedTuple, Protocol, cast, runtime_checkable

UNITS = ("tokens", "pictures", "questions", "objects", "texts")
"""What a run counts."""
SCORES = {
    "perplexity": "perplexity {:.2f}",
    "exact": "exact match {:.2f} %",
    "chrf": "chrF {:.2f}",
    "bleu": "BLEU {:.2f}",
    "accuracy_held_out": "held out {:.2f} %",
    "accuracy": "accuracy {:.2f} %",
    "f1": "F1 {:.2f} %",
    "iou": "masks {:.3f}",
    "ap": "AP {:.3f}",
}
"""What validations tell beside the loss, in words."""
ALWAYS = frozenset({"step", "epoch", "loss", "learning_rate", "gradient_norm", "seconds"})
"""What every line of metrics.jsonl about training has, beside speeds; all else are losses beside the main one."""


@runtime_checkable
class Stream(Protocol):
    """What is needed of a file to talk to it."""

    def write(self, text: str, /) -> object:
        """Take in text."""

    def flush(self) -> object:
        """Pass it on."""

    def isatty(self) -> bool:
        """Say whether it is a terminal."""


class Progress(NamedTuple):
    """Where a run is, after a step."""

    step: int
    total: int
    """How many steps are planned (an estimate where the epochs limit)."""
    epoch: int
    loss: float
    """Per token, over the last few steps."""
    tokens_per_second: float
    unit: str = "tokens"
    """What are counted in place of tokens, where there are none."""
    left: float | None = None
    """Seconds until the end, where the time limits."""


@runtime_checkable
class Reporter(Protocol):
    """Someone who is told what happens."""

    def message(self, text: str) -> None:
        """Be told something in words."""

    def step(self, progress: Progress) -> None:
        """Be told of every step."""

    def logged(self, record: Mapping[str, Any]) -> None:
        """Be told of every line of metrics.jsonl: one for every so many steps, and every validation."""

    def close(self) -> None:
        """Be told that there is no more."""


class Silent:
    """Says nothing."""

    def message(self, text: str) -> None:
        """Say nothing."""

    def step(self, progress: Progress) -> None:
        """Say nothing."""

    def logged(self, record: Mapping[str, Any]) -> None:
        """Say nothing."""

    def close(self) -> None:
        """Say nothing."""


class Lines:
    """Plain lines, for logs."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._last: Progress | None = None

    def message(self, text: str) -> None:
        """Print it."""
        print(text, file=self._stream, flush=True)

    def step(self, progress: Progress) -> None:
        """Remember it for the next line."""
        self._last = progress

    def logged(self, record: Mapping[str, Any]) -> None:
        """Print a line for it."""
        self.message(describe(record, self._last))

    def close(self) -> None:
        """Leave the stream as it is."""


class Bar:
    """A progress bar that stays in the terminal's last line; messages scroll by above it."""

    def __init__(self, stream: Stream) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress

        columns = (
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.completed:.0f}/{task.total:.0f}"),
            TextColumn("loss {task.fields[loss]:.3f}"),
            TextColumn("{task.fields[speed]:,.0f} {task.fields[unit]}/s"),
            TimeRemainingColumn(compact=True),
            TextColumn("left{task.fields[validation]}"),
        )
        # Rich would take `phrasebook:train:9` for an emoji and `[a].tsv` for a style: what we say is said as it is.
        console = Console(file=cast(IO[str], stream), emoji=False, markup=False, highlight=False)
        self._rich = RichProgress(*columns, console=console, refresh_per_second=4)
        self._task: Any = None
        self._validation = ""

    def message(self, text: str) -> None:
        """Print it above the bar."""
        self._rich.console.print(text, soft_wrap=True)

    def step(self, progress: Progress) -> None:
        """Move the bar."""
        fields: dict[str, Any] = {
            "epoch": progress.epoch,
            "loss": progress.loss,
            "speed": progress.tokens_per_second,
            "unit": progress.unit,
            "validation": self._validation,
        }
        if self._task is None:
            self._rich.start()
            self._task = self._rich.add_task("", total=progress.total, completed=progress.step, **fields)
        else:
            self._rich.update(self._task, completed=progress.step, total=max(progress.total, progress.step), **fields)

    def logged(self, record: Mapping[str, Any]) -> None:
        """Show the last validation at the end of the bar, and print it above."""
        if "valid_loss" in record:
            # One number: in 80 columns two would leave no room for the bar.
            self._validation = f" · {_scores(record)[-1]}"
            if self._task is not None:
                self._rich.update(self._task, validation=self._validation)
            self.message(describe(record, None))

    def close(self) -> None:
        """Take the bar away."""
        self._rich.stop()


def reporter_for(stream: Stream | None = None) -> Reporter:
    """Return the bar if the stream (stderr) is a terminal, else plain lines."""
    chosen = sys.stderr if stream is None else stream
    return Bar(chosen) if chosen.isatty() else Lines(chosen)


def describe(record: Mapping[str, Any], last: Progress | None) -> str:
    """Put a line of metrics.jsonl into words."""
    place = f"step {record['step']:,} · epoch {record['epoch']}"
    if "valid_loss" in record:
        best = " · best so far" if record.get("best") else ""
        return f"{place} · validation loss {record['valid_loss']:.4f} · {' · '.join(_scores(record))}{best}"
    left, unit = "", next((unit for unit in UNITS if f"{unit}_per_second" in record), UNITS[0])
    if last is not None and last.left is not None:
        left = f" · {duration(last.left)} left"
    elif last is not None and record.get(f"{unit}_per_second") and record.get("steps_per_second"):
        left = f" · {duration((last.total - last.step) / record['steps_per_second'])} left"
    beside = "".join(
        f" · {name.removesuffix('_loss').replace('_', ' ')} {value:.4f}"
        for name, value in record.items()
        if name not in ALWAYS and not name.endswith("_per_second")
    )
    return (
        f"{place} · loss {record['loss']:.4f}{beside} · learning rate {record['learning_rate']:.2e}"
        f" · {record[f'{unit}_per_second']:,.0f} {unit}/s{left}"
    )


def _scores(record: Mapping[str, Any]) -> list[str]:
    """Put what a validation found into words, what decides last.

    chrF is told where it decides; exact match there, too, and where there is no BLEU. metrics.jsonl has all.
    """
    decides = record.get("metric")
    hidden = {"chrf", "exact"} if "bleu" in record else {"chrf"}
    names = [name for name in SCORES if name in record and (name == decides or name not in hidden)]
    return [SCORES[name].format(record[name]) for name in sorted(names, key=lambda name: name == decides)]


def duration(seconds: float) -> str:
    """Write a time as people do: 45 s, 12 min 30 s, 3 h 05 min."""
    whole = max(round(seconds), 0)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
