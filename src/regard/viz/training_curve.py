"""A training's learning curves as a self-contained SVG: losses, the deciding score, the learning rate.

It has a background of its own, so it is readable on a page of any colour, and follows the reader's dark mode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from regard.errors import DisplayError
from regard.viz.metric_curves import Points, deciding_scores, points_of
from regard.viz.plot_axes import Axis, fit, label

WIDTH, LEFT, RIGHT, TOP, BOTTOM, GAP = 760, 62, 138, 56, 46, 44
"""Pixels: width of the picture, its margins, and the gap between panels."""
TALL, LOW = 190, 70
"""Height of a panel; the learning rate's is lower."""
MOST_POINTS, MOST_DOTS = 1500, 40
"""Lines with more points are thinned out, or have no dots."""
APART = 15
"""Minimum distance between two names on the right, in pixels."""
STYLE = (
    "text{font:12px system-ui,sans-serif;fill:#6b6b7e}.name{font-weight:600}.title{font-weight:600;fill:#22223a}"
    ".paper{fill:#fff}path{fill:none;stroke-width:2;stroke-linejoin:round}"
    ".grid{stroke:#e3e3ea;stroke-width:1}.axis{stroke:#8a8a9c;stroke-width:1}"
    ".best{stroke:#22223a;stroke-width:1;stroke-dasharray:4 4}"
    ".training path{stroke:#8f86d8}.training *{fill:#6a5fc4}"
    ".validation path{stroke:#d5661a}.validation *{fill:#c2560c}"
    ".score path{stroke:#12876f}.score *{fill:#0d7a64}.rate path{stroke:#8a8a9c}.rate *{fill:#6b6b7e}"
    ".training path,.validation path,.score path,.rate path{fill:none}"
    "@media(prefers-color-scheme:dark){text{fill:#a2a2b4}.title{fill:#e8e8f0}.paper{fill:#16161f}"
    ".grid{stroke:#2c2c3a}.axis{stroke:#6b6b7e}.best{stroke:#e8e8f0}"
    ".training path{stroke:#8d83e8}.training *{fill:#b3aaff}.validation path{stroke:#f0964f}.validation *{fill:#f5ab70}"
    ".score path{stroke:#35bd9d}.score *{fill:#4fd1b3}.rate path{stroke:#8a8a9c}.rate *{fill:#a2a2b4}"
    ".training path,.validation path,.score path,.rate path{fill:none}}"
)

Record = Mapping[str, object]


@dataclass(frozen=True)
class Line:
    """A line in a panel."""

    kind: str
    """training, validation, score or rate; chooses the colour."""
    name: str
    points: Points
    dots: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines that share an axis."""

    title: str
    lines: tuple[Line, ...]
    high: int = TALL
    log: bool = False


def training_curve(records: Sequence[Record]) -> str:
    """Return an SVG of the records of a `metrics.jsonl`, with the best step marked."""
    panels = _panels(records)
    if not panels:
        raise DisplayError("There is nothing to draw: no record has a loss, a score or a learning rate.")
    last = max(step for panel in panels for line in panel.lines for step, _ in line.points)
    high = TOP + sum(panel.high for panel in panels) + GAP * (len(panels) - 1) + BOTTOM
    left, right = float(LEFT), float(WIDTH - RIGHT)
    ticks = tuple(tick for tick in fit(0.0, last, left, right, count=6).ticks if tick <= last and tick == int(tick))
    across = Axis(0.0, last, left, right, ticks)
    parts, top = list[str](), TOP
    for panel in panels:
        parts += _drawn(panel, across, top)
        top += panel.high + GAP
    foot = high - BOTTOM
    for tick in across.ticks:
        parts.append(f'<path class="axis" d="M{across.at(tick):.1f} {foot}v5"/>')
        parts.append(f'<text x="{across.at(tick):.1f}" y="{foot + 19}" text-anchor="middle">{label(tick)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:g}" y="{foot + 37}" text-anchor="middle">step</text>')
    best = _best(records)
    if best is not None:
        parts += _marked(*best, across, foot)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{high}" viewBox="0 0 {WIDTH} {high}" '
        f'role="img" aria-label="Learning curve of {last:,.0f} steps"><style>{STYLE}</style>'
        f'<rect class="paper" width="{WIDTH}" height="{high}" rx="8"/>{"".join(parts)}</svg>\n'
    )


def _panels(records: Sequence[Record]) -> list[Panel]:
    per = "picture" if any("pictures_per_second" in record for record in records) else "token"
    score = next(((key, name) for key, name in deciding_scores(records).items() if points_of(records, key)), None)
    losses = (
        Line("training", "training", points_of(records, "loss")),
        Line("validation", "validation", points_of(records, "valid_loss"), dots=True),
    )
    panels = [Panel(f"loss per {per}", losses, log=True)]
    if score:
        panels.append(Panel(f"{score[1]} on validation", (Line("score", "", points_of(records, score[0]), dots=True),)))
    panels.append(Panel("learning rate", (Line("rate", "", points_of(records, "learning_rate")),), LOW))
    shown = [(panel, tuple(line for line in panel.lines if line.points)) for panel in panels]
    return [Panel(panel.title, lines, panel.high, panel.log) for panel, lines in shown if lines]


def _best(records: Sequence[Record]) -> tuple[float, float] | None:
    """Return step and score of the best validation; records that were the best so far have `best` set."""
    found = [record for record in records if record.get("best")]
    decides = str(found[-1].get("metric")) if found else ""
    return max(points_of(found, decides) or points_of(found, "valid_loss"), default=None)


def _drawn(panel: Panel, across: Axis, top: int) -> list[str]:
    values = [value for line in panel.lines for _, value in line.points]
    low, high = min(values), max(values)
    foot = top + panel.high
    count = 4 if panel.high == TALL else 2
    up = fit(0.0 if panel.high == LOW else low, high, float(foot), float(top), count=count, log=panel.log)
    parts = [f'<text class="title" x="{LEFT}" y="{top - 12}">{escape(panel.title)}</text>']
    for tick in up.ticks:
        y = up.at(tick)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 9}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>')
    parts.append(f'<path class="axis" d="M{LEFT} {foot}H{WIDTH - RIGHT}"/>')
    ends = _apart([up.at(line.points[-1][1]) for line in panel.lines])
    for line, y in zip(panel.lines, ends, strict=True):
        parts += _line(line, across, up, y)
    return parts


def _line(line: Line, across: Axis, up: Axis, name_at: float) -> list[str]:
    thin = max(len(line.points) // MOST_POINTS, 1)
    shown = [*line.points[:-1:thin], line.points[-1]]
    places = [(across.at(step), up.at(value)) for step, value in shown]
    parts = [f'<g class="{line.kind}"><path d="M{"L".join(f"{x:.1f} {y:.1f}" for x, y in places)}"/>']
    if len(shown) == 1 or (line.dots and len(shown) <= MOST_DOTS):
        for (x, y), (step, value) in zip(places, shown, strict=True):
            hint = f"step {step:,.0f}: {line.name or 'value'} {value:.4g}".replace("value ", "")
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2"><title>{escape(hint)}</title></circle>')
    last = "" if line.kind == "rate" else f"{line.name} {line.points[-1][1]:.4g}".strip()
    parts.append(f'<text class="name" x="{WIDTH - RIGHT + 9}" y="{name_at + 4:.1f}">{last}</text></g>')
    return parts


def _apart(places: Sequence[float]) -> list[float]:
    """Move overlapping names apart, keeping their order."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    moved = list(places)
    for above, below in pairwise(order):
        short = APART - (moved[below] - moved[above])
        if short > 0:
            moved[above] -= short / 2
            moved[below] += short / 2
    return moved


def _marked(step: float, value: float, across: Axis, foot: int) -> list[str]:
    x = across.at(step)
    anchor = "end" if x > (LEFT + WIDTH - RIGHT) / 2 else "start"
    return [
        f'<path class="best" d="M{x:.1f} {TOP - 26}V{foot}"/>',
        f'<text class="title" x="{x + (-6 if anchor == "end" else 6):.1f}" y="{TOP - 28}" text-anchor="{anchor}">'
        f"best at step {step:,.0f}: {value:.4g}</text>",
    ]
