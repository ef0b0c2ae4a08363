"""Line plots: learning curves, and scores by sentence length."""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from regard.errors import DisplayError
from regard.folder_files import parse_json
from regard.viz.figure_style import FAINT, LINES, save_figure
from regard.viz.token_labels import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Points = list[tuple[float, float]]

SCORES = {"bleu": "BLEU", "chrf": "chrF", "exact": "exact match in %", "accuracy": "accuracy", "f1": "F1", "ap": "AP"}
"""Validation scores beside the loss, and their names."""
COLOURS = ("#3a2f8f", "#e07a1f", "#1f9e89", "#c2367a", "#2f80d0", "#7a7a2a")
"""Colours of consecutive lines, distinct in hue and in lightness for the colour-blind."""
_MARKS = "osD^vP"
_STYLES = ("-", "--", ":")
_MARKED = 40
"""Lines with this many points or more have no markers, which would hide them."""
_LEGEND_INSIDE = 3
"""Legends with more entries are placed beside the plot."""


def learning_curves(runs: Mapping[str, Sequence[Path]], out: Path) -> list[str]:
    """Draw validation scores and loss of several models against steps, from the `metrics.jsonl` of each run.

    Runs of one model (with other seeds) share a colour and marker. Training loss is drawn only if no model was
    validated. Returns notes for the user.
    """
    records = {name: [read_metrics(path) for path in paths] for name, paths in runs.items()}
    found = {
        label: {name: [points_of(run, key) for run in every] for name, every in records.items()}
        for key, label in (
            *((key, f"validation {label}") for key, label in deciding_scores(chain(*chain(*records.values()))).items()),
            ("valid_loss", "validation loss"),
            ("loss", "training loss"),
        )
    }
    shown = {label: lines for label, lines in found.items() if any(any(every) for every in lines.values())}
    if "validation loss" in shown:
        shown.pop("training loss", None)
    if not shown:
        known = ", ".join(f"'{key}'" for key in ("loss", "valid_loss", *SCORES))
        raise DisplayError(f"There is nothing to draw: no run has any of {known}.")

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(7.0, 2.6 * len(shown) + 0.4)
        panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
        for number, (axes, (label, lines)) in enumerate(zip(panels, shown.items(), strict=True)):
            for i, (name, every) in enumerate(lines.items()):
                for j, points in enumerate(every):
                    _line(axes, points, i, "" if j else name, marks=len(points) < _MARKED)
            _dress(axes, label, legend=not number)
            if label == "validation BLEU":
                axes.set_ylim(bottom=0)
        panels[-1].set_xlabel("step")
        figure.align_ylabels()

    return save_figure(out, [*map(_shown, runs)], draw)


def by_length(
    series: Mapping[str, Sequence[tuple[str, float]]],
    out: Path,
    *,
    ylabel: str = "BLEU",
    xlabel: str = "source words",
    title: str = "",
) -> list[str]:
    """Draw a line for each model over bins of length, such as `{"with attention": [("1–10", 98.2), …]}`.

    Bins are in the order of first appearance; a model may lack some. Returns notes for the user.
    """
    bins = list(dict.fromkeys(name for points in series.values() for name, _ in points))
    if not bins:
        raise DisplayError("There is nothing to draw: no series has any points.")

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(max(4.5, 0.8 * len(bins) + 1.5), 3.6)
        axes = figure.subplots()
        for i, (name, points) in enumerate(series.items()):
            _line(axes, [(float(bins.index(where)), float(value)) for where, value in points], i, name, marks=True)
        axes.set_xticks(range(len(bins)), bins, parse_math=False)
        axes.set_xlabel(xlabel)
        axes.set_ylim(bottom=0)
        axes.set_title(_shown(title), loc="left", size=12, weight="bold", parse_math=False)
        _dress(axes, ylabel)

    return save_figure(out, [*bins, *map(_shown, series), ylabel, xlabel, _shown(title)], draw)


def read_metrics(path: Path) -> list[dict[str, object]]:
    """Read the records. A last line cut short by a kill is skipped; any other bad line is an error."""
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except OSError as error:
        raise DisplayError(f"Cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise DisplayError(f"Cannot read {path}: not UTF-8 (byte {error.start}).") from error
    records = []
    for number, line in enumerate(lines, start=1):
        try:
            if line.strip():
                records.append(dict(parse_json(line)))
        except (ValueError, TypeError) as error:
            if number < len(lines):
                raise DisplayError(f"Cannot read {path}: line {number} is not a JSON object.") from error
    return records


def deciding_scores(records: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the scores to draw: those that decide the best model, or all if the loss decides."""
    decide = {record["metric"] for record in records if record.get("metric") in record}
    return {key: label for key, label in SCORES.items() if key in decide or not decide}


def points_of(records: Sequence[Mapping[str, object]], key: str) -> Points:
    """Return `(step, value)` where a record has both as numbers; of a step that a resumed run repeats, the last."""
    found = {
        float(step): float(value)
        for step, value in ((record.get("step"), record.get(key)) for record in records)
        if isinstance(step, int | float) and isinstance(value, int | float) and math.isfinite(value)
    }
    return sorted(found.items())


def _line(axes: "Axes", points: Points, colour: int, name: str, *, marks: bool = True) -> None:
    if points:
        axes.plot(
            *zip(*points, strict=True),
            color=COLOURS[colour % len(COLOURS)],
            # From the seventh line on colours repeat, with other markers and dashes.
            marker=_MARKS[(colour + colour // len(COLOURS)) % len(_MARKS)] if marks else "",
            linestyle=_STYLES[colour // len(COLOURS) % len(_STYLES)],
            markersize=4.5,
            linewidth=1.6,
            label=_shown(name) or None,
        )


def _shown(text: str) -> str:
    """Make a name or title printable: a file name may contain control characters."""
    return " ".join(map(visible, text.split()))


def _dress(axes: "Axes", ylabel: str, *, legend: bool = True) -> None:
    """Style the axes, with a legend if there are several lines."""
    axes.set_ylabel(ylabel)
    axes.grid(axis="y", color=LINES, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    if not legend or len(named) < 2:
        return
    if len(named) > _LEGEND_INSIDE:
        shown = axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.01, 1.02))
    else:
        shown = axes.legend(frameon=False, fontsize=9)
    for text in shown.get_texts():
        text.set_parse_math(False)
