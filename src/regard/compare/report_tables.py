"""The tables of a report."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from regard.compare.report_document import Cell, Column, Table
from regard.compare.run_statistics import Row, Run, Stat
from regard.compare.significance import LEVEL
from regard.compare.training_run import INTERRUPTED, RunRecord
from regard.config_io import to_dict
from regard.training.progress import duration

NONE = "–"


@dataclass(frozen=True)
class Measured:
    """A column of the main table."""

    measure: str
    title: str
    about: str
    show: Callable[[float], str]
    good: str = ""
    """`high` or `low`; empty where neither is better."""
    spread: bool = True
    """Whether to show the standard deviation over seeds."""
    is_score: bool = False
    """Whether `measure` is the name of a score of `regard evaluate`."""


COLUMNS = (
    Measured("parameters", "parameters", "Trainable parameters.", lambda v: f"{v:,.0f}", spread=False),
    Measured("steps", "steps", "Training steps.", lambda v: f"{v:,.0f}", spread=False),
    Measured("best_step", "best at", "Step with the best validation score.", lambda v: f"{v:,.0f}"),
    Measured(
        "tokens_per_second", "tokens/s", "Target tokens per second in training.", lambda v: f"{v:,.0f}", "high", False
    ),
    Measured("seconds", "train time", "Training time, including validation.", duration, "low", False),
    Measured("loss", "loss", "Cross-entropy per target token of the test set, in nats.", lambda v: f"{v:.3f}", "low"),
    Measured("bleu", "BLEU", "Cased BLEU with 13a tokenisation.", lambda v: f"{v:.2f}", "high"),
    Measured("difference", "Δ", "Difference in BLEU from the baseline.", lambda v: f"{v:+.2f}".replace("-", "−")),
    Measured("p", "p", "Paired bootstrap test against the baseline.", lambda v: f"{v:.3f}", spread=False),
    Measured("chrf", "chrF", "Character n-gram F-score.", lambda v: f"{v:.2f}", "high"),
    Measured("aer", "AER", "Alignment error rate, against gold alignments.", lambda v: f"{v:.3f}", "low"),
    Measured(
        "sentences_per_second", "sent/s", "Test sentences translated per second.", lambda v: f"{v:,.1f}", "high", False
    ),
)
"""The columns of the main table for text tasks."""
_BY_NAME = {column.measure: column for column in COLUMNS}


def columns_of(rows: Sequence[Row]) -> tuple[Measured, ...]:
    """Return the columns of the main table; for picture tasks, they are the scores of the task."""
    scores = {name: score for row in rows for name, score in row.scores.items()}
    if not scores:
        return COLUMNS
    main, *others = (_scored(name, score) for name, score in scores.items())
    unit = next((run.unit for row in rows for run in row.finished), "tokens")
    about, read = f"{unit.capitalize()} per second in training.", "texts" if unit == "texts" else "pictures"
    return (
        *(_BY_NAME[name] for name in ("parameters", "steps", "best_step")),
        replace(_BY_NAME["tokens_per_second"], title=f"{unit}/s trained", about=about),
        _BY_NAME["seconds"],
        main,
        replace(_BY_NAME["difference"], about=f"Difference in {main.title} from the baseline."),
        _BY_NAME["p"],
        *others,
        replace(_BY_NAME["sentences_per_second"], title=f"{read}/s", about=f"Test {read} per second."),
    )


def _scored(name: str, score: Mapping[str, Any]) -> Measured:
    digits = 3 if score["rate"] else 2
    return Measured(name, name, score["made_by"], lambda v: f"{v:.{digits}f}", score["best"], is_score=True)


def _stat(column: Measured, row: Row) -> Stat | None:
    return row.score(column.measure) if column.is_score else row.stat(column.measure)


def main_table(rows: Sequence[Row]) -> Table:
    """Return the main table: one row per variant with its costs and scores."""
    shown = [column for column in columns_of(rows) if any(_stat(column, row) for row in rows)]
    if not any(_best_before_the_end(run) for row in rows for run in row.finished):
        shown = [column for column in shown if column.measure != "best_step"]
    best = {column.measure: _best(column, rows) for column in shown}
    columns = [Column("variant", numbers=False), *(Column(column.title, column.about) for column in shown)]
    failed = any(row.failed for row in rows)
    lines = []
    for row in rows:
        cells = [Cell(row.variant + (" (baseline)" if row.baseline and len(rows) > 1 else ""))]
        cells += [_cell(column, row, best[column.measure]) for column in shown]
        if failed:
            cells.append(Cell(why_failed(row) or ""))
        lines.append(tuple(cells))
    if failed:
        columns.append(Column("note", numbers=False))
    return Table(tuple(columns), tuple(lines))


def _best_before_the_end(run: Run) -> bool:
    """Return whether the best validation score was before the last step."""
    result = run.record.result or {}
    return result.get("best_step") not in (None, result.get("steps"))


def why_failed(row: Row) -> str:
    """Return in one line which runs failed, and why."""
    many = len(row.runs) > 1
    return "; ".join((f"{run.place.name} " if many else "") + _why(run.record) for run in row.failed)


def _why(record: RunRecord) -> str:
    stopped = record.state == INTERRUPTED  # this process alone was stopped
    return "was stopped: run the same command again to continue it" if stopped else f"failed: {record.reason}"


def _cell(column: Measured, row: Row, best: float | None) -> Cell:
    stat = _stat(column, row)
    if stat is None:
        return Cell(NONE)
    if column.measure == "p":
        return Cell(_significance(stat), stat.mean)
    text = column.show(stat.mean)
    margin = _margin(column, row, stat)
    if margin is not None:
        text += f" ± {column.show(margin).lstrip('+')}"
    return Cell(text, stat.mean, best is not None and column.show(stat.mean) == column.show(best))


def _margin(column: Measured, row: Row, stat: Stat) -> float | None:
    """Return the standard deviation over seeds; for a single run, the bootstrap interval of the main score."""
    if not column.spread:
        return None
    if stat.spread is not None:
        return stat.spread
    run = row.finished[0]
    main = run.evaluation is not None and column.title == run.evaluation.main
    return run.tested.interval if main and run.tested is not None and len(row.finished) == 1 else None


def _significance(stat: Stat) -> str:
    if len(stat.values) == 1:
        return f"{stat.mean:.3f}{'*' if stat.mean < LEVEL else ' '}"
    return f"{sum(value < LEVEL for value in stat.values)} of {len(stat.values)}"


def _best(column: Measured, rows: Sequence[Row]) -> float | None:
    """Return the best value of a column; None if all are shown alike."""
    if column.measure == "loss":
        # A language model does not see the source: its loss is not comparable with a translator's.
        rows = [row for row in rows if _reads(row)] or rows
    means = [stat.mean for row in rows if (stat := _stat(column, row))]
    if not column.good or len(set(map(column.show, means))) < 2:
        return None
    return max(means) if column.good == "high" else min(means)


def _reads(row: Row) -> bool:
    return row.runs[0].record.job.config.model.encoder.kind != "none"


def length_table(rows: Sequence[Row]) -> Table | None:
    """Return the table of BLEU by source length; None if there are no translations."""
    found = {row.variant: row.by_length() for row in rows}
    counts = {label: count for bins in found.values() for label, (count, _) in bins.items()}
    if not counts:
        return None
    columns = [Column("source words", numbers=False), Column("sentences")]
    columns += [Column(row.variant) for row in rows if found[row.variant]]
    lines: list[tuple[Cell, ...]] = []
    for label in sorted(counts, key=lambda label: int(label.partition("–")[0].rstrip("+"))):
        cells = [Cell(label, float(len(lines))), Cell(f"{counts[label]:,}", counts[label])]
        values = [bins[label][1] if label in bins else None for bins in found.values() if bins]
        given = [value for value in values if value is not None]
        best = max(given) if len({f"{value:.2f}" for value in given}) > 1 else None
        top = None if best is None else f"{best:.2f}"
        cells += [Cell(NONE) if v is None else Cell(f"{v:.2f}", v, f"{v:.2f}" == top) for v in values]
        lines.append(tuple(cells))
    return Table(tuple(columns), tuple(lines))


def score_table(rows: Sequence[Row]) -> Table:
    """Return the table of all scores of `regard evaluate`, with how each is computed."""
    made: dict[str, dict[str, Any]] = {}
    for row in rows:
        for run in row.finished:
            assert run.evaluation is not None
            for name, score in run.evaluation.scores.items():
                made.setdefault(name, score)
    columns = [Column("score", numbers=False), *(Column(row.variant) for row in rows if row.finished)]
    lines = []
    for name, score in made.items():
        digits = 4 if score["rate"] else 2
        stats = [row.score(name) for row in rows if row.finished]
        cells = [Cell(NONE) if stat is None else Cell(_with_spread(stat, digits), stat.mean) for stat in stats]
        lines.append((Cell(name), *cells, Cell(score["made_by"])))
    return Table((*columns, Column("computed by", numbers=False)), tuple(lines))


def _with_spread(stat: Stat, digits: int) -> str:
    spread = "" if stat.spread is None else f" ± {stat.spread:.{digits}f}"
    return f"{stat.mean:.{digits}f}{spread}"


def run_table(rows: Sequence[Row]) -> Table:
    """Return the table of runs, for variants with several seeds."""
    measures = [
        column
        for column in columns_of(rows)
        if (column.is_score or column.measure in _OF_RUNS) and any(_stat(column, row) for row in rows)
    ]
    lines = []
    for row in rows:
        for run in row.runs:
            alone = Row(row.variant, (run,))
            cells = [_cell(column, alone, None) for column in measures]
            lines.append((Cell(run.place.name), *cells))
    columns = [Column("run", numbers=False), *(Column(column.title, column.about) for column in measures)]
    return Table(tuple(columns), tuple(lines))


_OF_RUNS = ("tokens_per_second", "seconds", "loss", "bleu", "difference", "p", "chrf", "aer")


def settings_table(rows: Sequence[Row]) -> Table | None:
    """Return the table of settings in which the variants differ; None if there are none."""
    every = {row.variant: dict(_flat(to_dict(row.runs[0].record.job.config))) for row in rows}
    names = list(dict.fromkeys(name for settings in every.values() for name in settings))
    lines = []
    for name in names:
        values = [settings.get(name) for settings in every.values()]
        there = {_shown(value) for value in values if value is not None}
        # Show a group that a variant lacks (attention); show settings in it only if variants that have it differ.
        group = any(other.startswith(f"{name}.") for other in names)
        if (len(there) > 1 or group) and name != "preset":
            lines.append((Cell(name), *(Cell(_shown(value)) for value in values)))
    if not lines:
        return None
    columns = [Column("setting", numbers=False), *(Column(name, numbers=False) for name in every)]
    return Table(tuple(columns), tuple(lines))


def _flat(table: Mapping[str, Any], path: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in table.items():
        full = f"{path}.{name}" if path else name
        found += _flat(value, full) if isinstance(value, Mapping) else [(full, value)]
    return found


def _shown(value: Any) -> str:
    if value is None:
        return NONE
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(map(str, value)) or NONE if isinstance(value, list) else str(value)


def budget_of(run: Run) -> tuple[Any, ...]:
    """Return the budget of a run as a key to compare by."""
    settings = run.record.job.config.training
    batch = settings.batch_tokens * settings.accumulate
    return run.record.job.minutes, settings.steps, settings.epochs, settings.patience, batch
