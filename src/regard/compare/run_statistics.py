"""The measurements of every run, and their mean and spread for each variant."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from regard.compare.scoring import Evaluation
from regard.compare.significance import BootstrapResult
from regard.compare.training_run import FINISHED, RunFiles, RunRecord

_SPEED = "_per_second"
"""The suffix of speeds in metrics.jsonl."""


@dataclass(frozen=True)
class Run:
    """One training run with its results so far."""

    place: RunFiles
    record: RunRecord
    metrics: Sequence[Mapping[str, Any]]
    """The lines of metrics.jsonl."""
    evaluation: Evaluation | None
    tested: BootstrapResult | None = None
    """None if there are no translations, or no baseline run of the same seed."""

    @property
    def finished(self) -> bool:
        """Whether it was trained and scored."""
        return self.record.state == FINISHED and self.evaluation is not None

    @property
    def unit(self) -> str:
        """The unit of the training speed: tokens, or pictures."""
        names = (name for line in self.metrics for name in line if name.endswith(_SPEED) and name != f"steps{_SPEED}")
        return next(names, f"tokens{_SPEED}").removesuffix(_SPEED)

    @property
    def tokens_per_second(self) -> float | None:
        """Return the median training speed without validation, in target tokens or the task's own unit."""
        name = f"{self.unit}{_SPEED}"
        found = [float(line[name]) for line in self.metrics if line.get(name)]
        return statistics.median(found) if found else None


@dataclass(frozen=True)
class Stat:
    """One measurement over the runs of a variant."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Return the mean."""
        return statistics.fmean(self.values)

    @property
    def spread(self) -> float | None:
        """Return the sample standard deviation (n - 1); None for a single run."""
        return statistics.stdev(self.values) if len(self.values) > 1 else None


def _result(name: str) -> Callable[[Run], float | None]:
    return lambda run: None if run.record.result is None else run.record.result[name]


def _score(name: str) -> Callable[[Run], float | None]:
    return lambda run: None if run.evaluation is None else run.evaluation.value(name)


MEASURES: dict[str, Callable[[Run], float | None]] = {
    "parameters": lambda run: None if run.evaluation is None else float(run.evaluation.parameters),
    "steps": _result("steps"),
    "best_step": _result("best_step"),
    "tokens_per_second": lambda run: run.tokens_per_second,
    "seconds": _result("seconds"),
    "loss": lambda run: None if run.evaluation is None else run.evaluation.loss,
    "perplexity": _score("perplexity"),
    "main": lambda run: None if run.evaluation is None else run.evaluation.value(run.evaluation.main),
    "bleu": _score("BLEU"),
    "difference": lambda run: None if run.tested is None else run.tested.difference,
    "p": lambda run: None if run.tested is None else run.tested.p,
    "chrf": _score("chrF"),
    "aer": _score("AER"),
    "exact_match": _score("exact match"),
    "sentences_per_second": lambda run: None if run.evaluation is None else run.evaluation.sentences_per_second,
}
"""All measurements of a run."""


@dataclass(frozen=True)
class Row:
    """A variant and its runs, one for each seed."""

    variant: str
    runs: tuple[Run, ...]
    baseline: bool = False

    @property
    def finished(self) -> tuple[Run, ...]:
        """The finished runs."""
        return tuple(run for run in self.runs if run.finished)

    @property
    def failed(self) -> tuple[Run, ...]:
        """The runs that did not finish."""
        return tuple(run for run in self.runs if not run.finished)

    def stat(self, measure: str) -> Stat | None:
        """Return one of the `MEASURES` over all finished runs; None if none has it."""
        found = [MEASURES[measure](run) for run in self.finished]
        values = tuple(float(value) for value in found if value is not None and math.isfinite(value))
        return Stat(values) if values else None

    def score(self, name: str) -> Stat | None:
        """Return a score of `regard evaluate` over all finished runs, by name."""
        values = [_score(name)(run) for run in self.finished]
        return (
            Stat(tuple(value for value in values if value is not None)) if any(v is not None for v in values) else None
        )

    @property
    def scores(self) -> dict[str, dict[str, Any]]:
        """For picture tasks, the scores of `regard evaluate` over the whole corpus, main score first; else empty."""
        found = [run.evaluation for run in self.finished if run.evaluation and run.evaluation.unit != "sentences"]
        return found[0].of_all if found else {}

    def by_length(self) -> dict[str, tuple[int, float]]:
        """Return the number of sentences and the BLEU, averaged over runs, for each range of source lengths."""
        found: dict[str, list[float]] = {}
        counts: dict[str, int] = {}
        for run in self.finished:
            assert run.evaluation is not None
            for entry in run.evaluation.by_length:
                if entry["bleu"] is not None:
                    last = entry["last"]
                    label = f"{entry['first']}+" if last is None else f"{entry['first']}–{last}"
                    found.setdefault(label, []).append(float(entry["bleu"]))
                    counts[label] = int(entry["count"])
        return {label: (counts[label], statistics.fmean(values)) for label, values in found.items()}


def to_json(row: Row) -> dict[str, Any]:
    """Return all measurements of a variant as plain dicts and lists."""
    means = {}
    for name in MEASURES:
        stat = row.stat(name)
        means[name] = None if stat is None else {"mean": stat.mean, "spread": stat.spread, "runs": len(stat.values)}
    return {
        "name": row.variant,
        "baseline": row.baseline,
        "measures": means,
        "by_length": {label: {"sentences": n, "bleu": bleu} for label, (n, bleu) in row.by_length().items()},
        "runs": [_run_to_json(run) for run in row.runs],
    }


def _run_to_json(run: Run) -> dict[str, Any]:
    record = run.record.to_json()
    plain = {
        "name": run.place.name,
        "seed": run.record.job.config.seed,
        "state": run.record.state,
        "reason": run.record.reason,
        "training": record["result"],
        "machine": record["machine"],
        "at_once": run.record.at_once,
        "measures": {name: measure(run) for name, measure in MEASURES.items()},
        "interval": None if run.tested is None else run.tested.interval,
        "config": record["job"]["config"],
    }
    if run.evaluation is not None:
        plain |= {
            "scores": run.evaluation.scores,
            "search": run.evaluation.search,
            "vocabulary": run.evaluation.vocabulary,
            "by_length": list(run.evaluation.by_length),
        }
    return plain
