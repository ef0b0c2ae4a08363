"""Attention as a heat map: source on top, target on the left, darker for larger weights."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz import colour_scale
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.token_labels import cells, friendly
from regard.viz.trace import AttentionTrace, Choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.collections import PolyCollection
    from matplotlib.figure import Figure

_Numbers = NDArray[Any]

_ACROSS = 4
_GAP = 0.35
_SLANTED = 25
_MANY_CELLS = 20_000


class _Panel(NamedTuple):
    name: str
    look: NDArray[np.float32]


def save_picture(
    trace: AttentionTrace, path: Path, *, layer: Choice = None, head: Choice = None, title: str = ""
) -> list[str]:
    """Draw a layer and head, the mean over those not given, or a panel for each of "all".

    The suffix chooses the format: .png, .svg or .pdf. Returns notes for the user, such as characters without a font.
    """
    rows = _panels(trace, layer, head)
    if not rows[0][0].look.size:
        have = f"{len(trace.source)} source and {len(trace.target)} target tokens"
        raise DisplayError(f"There is nothing to draw: the trace has {have}.")
    source, target = friendly(trace.source, trace.special), friendly(trace.target, trace.special)
    sheet = _Sheet(source, target, trace.special, rows)

    def draw(figure: "Figure") -> None:
        sheet.draw(figure)
        sheet.write(figure, _caption(trace, layer, head), title)

    return save_figure(path, [*source, *target, title], draw)


def _caption(trace: AttentionTrace, layer: Choice, head: Choice) -> str:
    """Say what was averaged; panels have their own names."""
    shown = trace.caption(None if layer == "all" else layer, None if head == "all" else head)
    if "all" not in (layer, head):
        return shown
    return "" if trace.score is None else f"score {trace.score:.2f}"


def _panels(trace: AttentionTrace, layer: Choice, head: Choice) -> list[list[_Panel]]:
    """Arrange the requested layers and heads in rows: layers down and heads across if both are "all"."""
    trace.look()  # raises if there is no attention
    layers, heads = trace.weights.shape[:2]
    downs: list[int | None] = [*range(layers)] if layer == "all" else [layer if layer is None else layer % layers]
    acrosses: list[int | None] = [*range(heads)] if head == "all" else [head if head is None else head % heads]
    names = [
        [" · ".join(f"{n} {i}" for n, i in (("layer", down), ("head", across)) if i is not None) for across in acrosses]
        for down in downs
    ]
    rows = [
        [_Panel(name, trace.look(down, across)) for name, across in zip(line, acrosses, strict=True)]
        for line, down in zip(names, downs, strict=True)
    ]
    if len(downs) > 1 and len(acrosses) > 1:
        return rows
    flat = [panel for row in rows for panel in row]
    return [flat[i : i + _ACROSS] for i in range(0, len(flat), _ACROSS)]


@dataclass(frozen=True)
class _Sheet:
    """Panels of one size side by side; lengths are in inches, so that cells fit their labels."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    special: frozenset[str]
    rows: list[list[_Panel]]

    @property
    def alone(self) -> bool:
        """Whether there is only one panel."""
        return len(self.rows) == 1 and len(self.rows[0]) == 1

    @property
    def cell(self) -> float:
        """Side of a cell: smaller for long sentences, but never too small for a label."""
        longest = max(len(self.source), len(self.target))
        return float(np.interp(longest, [6, 40], [0.42, 0.19] if self.alone else [0.28, 0.15]))

    @property
    def points(self) -> float:
        """Font size of labels."""
        return min(self.cell * 72 * 0.66, 11.0)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of a panel."""
        return len(self.source) * self.cell, len(self.target) * self.cell

    def draw(self, figure: "Figure") -> None:
        """Place the panels, and the colour scale to the right of the top row."""
        (width, height), down, across = self.size, len(self.rows), max(map(len, self.rows))
        whole_width, whole_height = across * (width + _GAP) - _GAP, down * (height + _GAP) - _GAP
        figure.set_size_inches(whole_width, whole_height)
        strongest = max(colour_scale.top(panel.look) for row in self.rows for panel in row)
        for y, row in enumerate(self.rows):
            for x, panel in enumerate(row):
                left, bottom = x * (width + _GAP), whole_height - y * (height + _GAP) - height
                box = (left / whole_width, bottom / whole_height, width / whole_width, height / whole_height)
                self.panel(figure.add_axes(box), panel, strongest, top=y == 0, left=x == 0)
        tall = min(height, 1.6)
        box = (1 + 0.18 / whole_width, 1 - tall / whole_height, 0.1 / whole_width, tall / whole_height)
        self.key(figure.add_axes(box), strongest)

    def panel(self, axes: "Axes", panel: _Panel, strongest: float, *, top: bool, left: bool) -> None:
        """Draw one matrix, with labels at the outer edges only."""
        down, across = panel.look.shape
        rows, columns = np.nonzero(panel.look >= strongest / 256)  # smaller weights have the background's colour
        boxes = _boxes(columns, columns + 1, rows, rows + 1)
        many = len(boxes) * sum(map(len, self.rows)) > _MANY_CELLS
        _fill(axes, boxes, panel.look[rows, columns] / strongest).set_rasterized(many)
        axes.hlines(range(down + 1), 0, across, color=LINES, linewidth=0.5)
        axes.vlines(range(across + 1), 0, down, color=LINES, linewidth=0.5)
        axes.set(xlim=(0, across), ylim=(down, 0))
        axes.xaxis.tick_top()
        axes.tick_params(length=0, pad=4)
        for spine in axes.spines.values():
            spine.set_visible(False)
        self.label(axes.xaxis, self.source if top else ())
        self.label(axes.yaxis, self.target if left else ())
        if self.turn() == 45:
            for text in axes.get_xticklabels():
                text.set(rotation=45, ha="left", va="baseline", rotation_mode="anchor")
        else:
            axes.tick_params(axis="x", rotation=self.turn())
        if panel.name and not self.alone:
            axes.set_xlabel(panel.name, size=8, color=FAINT)

    def label(self, axis: "Axis", labels: tuple[str, ...]) -> None:
        """Write tokens at the middle of their cells, special ones in a fainter colour. `$` is not mathematics."""
        axis.set_ticks(np.arange(len(labels)) + 0.5, labels, size=self.points, parse_math=False)
        for text, label in zip(axis.get_ticklabels(), labels, strict=False):
            text.set_color(FAINT if label in self.special else INK)

    def turn(self) -> int:
        """Return the angle of the source labels: 0 if all fit their cells, else 45, or 90 for many."""
        widest = max(map(cells, self.source)) * self.points * 0.62 / 72
        return 0 if widest <= self.cell * 0.95 else 45 if len(self.source) <= _SLANTED else 90

    def key(self, axes: "Axes", strongest: float) -> None:
        """Draw the colour scale."""
        steps = np.linspace(0, strongest, 128, endpoint=False)
        nothing = np.zeros_like(steps)
        # Each box extends to the top and is covered by the next: no hairlines between neighbours.
        _fill(axes, _boxes(nothing, nothing + 1, steps, nothing + strongest), steps / strongest)
        axes.set(xlim=(0, 1), ylim=(0, strongest))
        axes.set_xticks([])
        axes.yaxis.tick_right()
        axes.set_yticks([0, strongest], ["0", f"{strongest:.1f}"], size=8)
        axes.tick_params(length=0, pad=3)
        for spine in axes.spines.values():
            spine.set(linewidth=0.4, color=LINES)

    def write(self, figure: "Figure", caption: str, title: str) -> None:
        """Write the caption below and the title above."""
        height = figure.get_figheight()
        below = 0.12 if self.alone else 0.3
        figure.text(0, -below / height, caption, ha="left", va="top", size=8, color=FAINT, parse_math=False)
        if title:
            boxes = [axes.get_tightbbox() for axes in figure.axes]
            top = max(box.y1 for box in boxes if box) / figure.dpi + 0.14
            figure.text(0, top / height, title, size=12, weight="bold", ha="left", va="bottom", parse_math=False)


def _boxes(left: _Numbers, right: _Numbers, top: _Numbers, bottom: _Numbers) -> _Numbers:
    """Return the four corners of each rectangle."""
    across, down = np.stack([left, right, right, left], axis=-1), np.stack([top, top, bottom, bottom], axis=-1)
    return np.stack([across, down], axis=-1)


def _fill(axes: "Axes", boxes: _Numbers, shares: _Numbers) -> "PolyCollection":
    """Fill rectangles with colours for their share of the strongest weight, on the colour of zero."""
    from matplotlib.collections import PolyCollection

    colours = colour_scale.colours(256)
    axes.set_facecolor(tuple(colours[0]))
    shades = colours[np.clip(shares * 255 + 0.5, 0, 255).astype(int)]
    painted = PolyCollection(list(boxes), facecolors=shades, edgecolors="none")
    axes.add_collection(painted, autolim=False)
    return painted
