"""The attention of several models on one sentence, side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from regard.errors import DisplayError
from regard.viz import colour_scale
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.token_labels import cells, friendly, shorten
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ACROSS = 3
"""Models per row."""
_GAP = 0.35
_LETTER = 0.62
"""Width of a letter relative to its height."""
_ROOM = 14
"""Letters shown of a token."""


class Panel(NamedTuple):
    """One model's attention on the sentence."""

    name: str
    trace: AttentionTrace | None
    """None if it has no attention; the panel then says so."""
    text: str = ""
    """The model's output, shown if there is no attention."""


def save_beside(panels: Sequence[Panel], path: Path, *, title: str = "") -> list[str]:
    """Draw a panel for each model, the mean over layers and heads, all on one colour scale.

    Each has its own labels, as outputs differ. Returns notes for the user.
    """
    drawn = [_Drawn.of(panel) for panel in panels]
    if not any(one.look.size for one in drawn):
        raise DisplayError("There is nothing to draw: none of the models has attention.")
    strongest = max(colour_scale.top(one.look) for one in drawn)
    rows = [drawn[i : i + ACROSS] for i in range(0, len(drawn), ACROSS)]

    def draw(figure: "Figure") -> None:
        wide = max(one.across for one in drawn)
        whole = len(rows[0]) * (wide + _GAP) - _GAP
        heights = [max(one.down for one in row) for row in rows]
        tall = sum(heights) + _GAP * (len(rows) - 1)
        figure.set_size_inches(whole, tall)
        below = tall
        for row, height in zip(rows, heights, strict=True):
            for number, one in enumerate(row):
                left, top = number * (wide + _GAP) + one.left, below - one.top
                width, deep = one.width, one.height
                box = (left / whole, (top - deep) / tall, max(width, 0.01) / whole, max(deep, 0.01) / tall)
                one.draw(figure.add_axes(box), strongest)
            below -= height + _GAP
        key = f"full colour: a weight of {strongest:.1f}"
        figure.text(0, -0.14 / tall, key, size=7.5, color=FAINT, ha="left", va="top")
        if title:
            figure.text(0, 1 + 0.12 / tall, title, size=11, weight="bold", ha="left", va="bottom", parse_math=False)

    words = [text for one in drawn for text in (*one.source, *one.target, one.panel.name, one.panel.text)]
    return save_figure(path, [*words, title], draw)


class _Drawn(NamedTuple):
    """A panel and its layout in inches: space for the name and the source above, for the target on the left."""

    panel: Panel
    source: tuple[str, ...]
    target: tuple[str, ...]
    look: np.ndarray[tuple[int, ...], np.dtype[np.float32]]
    cell: float

    @classmethod
    def of(cls, panel: Panel) -> "_Drawn":
        trace = panel.trace
        if trace is None or not trace.weights.size:
            return cls(panel, (), (), np.zeros((0, 0), np.float32), 0.2)
        source, target = (
            tuple(shorten(label, _ROOM) for label in friendly(tokens, trace.special))
            for tokens in (trace.source, trace.target)
        )
        cell = float(np.interp(max(len(source), len(target)), [6, 40], [0.24, 0.13]))
        return cls(panel, source, target, trace.look(), cell)

    @property
    def points(self) -> float:
        return min(self.cell * 72 * 0.68, 10.0)

    @property
    def left(self) -> float:
        return max(map(cells, self.target), default=0) * self.points * _LETTER / 72 + 0.08

    @property
    def top(self) -> float:
        longest = max(map(cells, self.source), default=0) * self.points * _LETTER / 72
        return 0.3 + longest * 0.75  # slanted

    @property
    def width(self) -> float:
        return len(self.source) * self.cell

    @property
    def height(self) -> float:
        return len(self.target) * self.cell

    @property
    def across(self) -> float:
        """Total width, with what the last slanted label adds on the right."""
        spill = max(map(cells, self.source), default=0) * self.points * _LETTER / 72 * 0.75
        return max(self.left + self.width + spill, 2.2)

    @property
    def down(self) -> float:
        return max(self.top + self.height, 0.9)

    def draw(self, axes: "Axes", strongest: float) -> None:
        axes.set_facecolor(tuple(colour_scale.colours(256)[0]))
        for spine in axes.spines.values():
            spine.set_visible(False)
        axes.tick_params(length=0, pad=3)
        self._name(axes)
        if not self.look.size:
            axes.set(xticks=[], yticks=[], facecolor="none")
            axes.annotate(
                "no attention", (0, 1), (-self.left * 72, -7), xycoords="axes fraction",
                textcoords="offset points", size=9, color=FAINT,
            )  # fmt: skip
            return
        down, across = self.look.shape
        shades = colour_scale.colours(256)[np.clip(self.look / strongest * 255 + 0.5, 0, 255).astype(int)]
        axes.imshow(shades, extent=(0, across, down, 0), aspect="auto", interpolation="none")
        axes.hlines(range(down + 1), 0, across, color=LINES, linewidth=0.4)
        axes.vlines(range(across + 1), 0, down, color=LINES, linewidth=0.4)
        axes.set(xlim=(0, across), ylim=(down, 0))
        axes.xaxis.tick_top()
        special = self.panel.trace.special if self.panel.trace else frozenset()
        for axis, labels in ((axes.xaxis, self.source), (axes.yaxis, self.target)):
            axis.set_ticks(np.arange(len(labels)) + 0.5, labels, size=self.points, parse_math=False)
            for tick, label in zip(axis.get_ticklabels(), labels, strict=False):
                tick.set_color(FAINT if label in special else INK)
        for tick in axes.get_xticklabels():
            tick.set(rotation=45, ha="left", va="baseline", rotation_mode="anchor")

    def _name(self, axes: "Axes") -> None:
        axes.annotate(
            self.panel.name, (0, 1), (-self.left * 72, self.top * 72 - 12), xycoords="axes fraction",
            textcoords="offset points", size=9.5, weight="bold", color=INK, parse_math=False,
        )  # fmt: skip
