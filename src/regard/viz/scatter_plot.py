"""Scatter plots of named points, such as a model's cost against its score."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from regard.errors import DisplayError
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.metric_curves import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Bbox

_WIDE = 8.0
"""Ratio of largest to smallest from which an axis is logarithmic."""
_NEAR, _FAR = 7.0, 84.0
"""Minimum and maximum distance of a name from its dot, in points."""
_SIDES = (
    *((1, 0, "left", "center"), (-1, 0, "right", "center"), (0, 1, "center", "bottom"), (0, -1, "center", "top")),
    *((0.8, 0.8, "left", "bottom"), (0.8, -0.8, "left", "top")),
    *((-0.8, 0.8, "right", "bottom"), (-0.8, -0.8, "right", "top")),
)


class Dot(NamedTuple):
    """One named point."""

    name: str
    x: float
    y: float
    spread: float = 0.0
    """Error of `y`, to each side."""
    colour: int = 0
    """Colour index, so that a model has the same colour in every plot."""


def scatter(
    panels: Mapping[str, Sequence[Dot]], out: Path, *, ylabel: str = "BLEU", low_is_good: bool = False
) -> list[str]:
    """Draw a panel for each x-axis, by its label, all with the same y-axis; names overlap neither names nor dots.

    With `low_is_good` the y-axis is inverted, so that better is always higher. Returns notes for the user.
    """
    shown = {label: list(dots) for label, dots in panels.items() if dots}
    if not shown:
        raise DisplayError("There is nothing to draw: there are no points.")

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(4.4 * len(shown), 3.8)
        across = figure.subplots(1, len(shown), sharey=True, squeeze=False)[0]
        figure.subplots_adjust(wspace=0.16)
        for axes, (label, dots) in zip(across, shown.items(), strict=True):
            _points(axes, label, dots)
        across[0].set_ylabel(ylabel)
        if low_is_good:
            across[0].invert_yaxis()
        for axes, dots in zip(across, shown.values(), strict=True):
            _names(axes, dots)

    return save_figure(out, [dot.name for dots in shown.values() for dot in dots], draw)


def _points(axes: "Axes", label: str, dots: Sequence[Dot]) -> None:
    for dot in dots:
        colour = COLOURS[dot.colour % len(COLOURS)]
        if dot.spread:
            axes.errorbar(dot.x, dot.y, dot.spread, color=colour, linewidth=1.0, alpha=0.5, zorder=2)
        axes.plot(dot.x, dot.y, "o", color=colour, markersize=7, zorder=3)
    xs = [dot.x for dot in dots]
    if min(xs) > 0 and max(xs) / min(xs) >= _WIDE:
        from matplotlib.ticker import LogLocator, NullFormatter

        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.xaxis.set_minor_formatter(NullFormatter())  # minor labels would overlap
    else:
        axes.set_xlim(0, max(xs) * 1.15 or 1)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}" if max(xs) > 10 else f"{value:g}")
        axes.locator_params(axis="x", nbins=5)
    axes.margins(y=0.22)
    axes.set_xlabel(label)
    axes.grid(color=LINES, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(which="both", length=0, colors=FAINT)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)


def _names(axes: "Axes", dots: Sequence[Dot]) -> None:
    """Write each name beside its dot, at the nearest free place."""
    from matplotlib.transforms import Bbox

    figure = axes.get_figure()
    assert figure is not None
    scale = figure.dpi / 72
    centres = [axes.transData.transform((dot.x, dot.y)) for dot in dots]
    taken = [Bbox.from_extents(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in centres]
    frame = axes.get_window_extent()
    for dot, (x, y) in sorted(zip(dots, centres, strict=True), key=lambda pair: -float(pair[1][1])):
        text = axes.text(0, 0, dot.name, size=9, color=INK, transform=None, parse_math=False, zorder=4)
        best: tuple[float, float, float, str, str] | None = None
        distance = _NEAR
        while best is None or best[0] > 0:
            for right, up, ha, va in _SIDES:
                at = (x + right * distance * scale, y + up * distance * scale)
                text.set(position=at, ha=ha, va=va)
                cost = _cost(text.get_window_extent(), taken, frame)
                if best is None or cost < best[0]:
                    best = (cost, *at, ha, va)
                if not cost:
                    break
            distance += 4.0
            if distance > _FAR:
                break
        assert best is not None
        text.set(position=best[1:3], ha=best[3], va=best[4])
        taken.append(text.get_window_extent().padded(1.5 * scale))
        if max(abs(best[1] - x), abs(best[2] - y)) > (_NEAR + 4) * scale:
            inverse = axes.transData.inverted()
            ends = [inverse.transform(end) for end in ((x, y), best[1:3])]
            axes.plot(*zip(*ends, strict=True), color=FAINT, linewidth=0.6, zorder=1)
        # From display to data coordinates, so that the name stays in place at any resolution.
        text.set_transform(axes.transData)
        left, low = axes.transData.inverted().transform(best[1:3])
        text.set_position((float(left), float(low)))


def _cost(box: "Bbox", taken: Sequence["Bbox"], frame: "Bbox") -> float:
    """Return the area of a box that overlaps others or lies outside the frame, in square pixels."""
    over = sum(_area(box, other) for other in taken)
    return over + max(box.width * box.height - _area(box, frame), 0.0) * 2


def _area(one: "Bbox", other: "Bbox") -> float:
    wide = min(one.x1, other.x1) - max(one.x0, other.x0)
    high = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(wide, 0.0) * max(high, 0.0))
