"""Attention over an image as a strip: the image, then for each word the image with its heat map."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz.figure_style import FAINT, INK, LINES, save_figure
from regard.viz.image_trace import Box, ImageTrace
from regard.viz.overlay_heat import Regions, fitted, key_colours, overlaid, pixels_of, top
from regard.viz.token_labels import cells, friendly, shorten
from regard.viz.trace import Choice

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

WIDEST = 9.6
"""Width in inches at which a strip breaks into rows."""
_GAP, _ROW, _LEAST = 0.14, 0.46, 0.9
"""Gap between panels, height of captions below them, and minimum width of a caption, in inches."""
_POINTS, _SMALLEST, _NOTE = 10.5, 7.5, 7.0
_LETTER = 0.62
"""Width of a letter relative to its height."""


class HeatMap(NamedTuple):
    """Evidence for a class over the cells of a grid, by whatever method, to be drawn beside others."""

    name: str
    cells: NDArray[np.float32]
    """Rows × columns, non-negative; the largest gets the strongest colour."""
    note: str = ""


class _Panel(NamedTuple):
    name: str
    note: str
    shares: NDArray[np.float32] | None
    """Height × width, shares of the strongest colour; None for the plain image."""
    outlines: tuple[Box, ...] = ()
    """Dashed outlines, in fractions of the image."""
    strongest: Box | None = None
    """The box with the largest weight, in fractions of the image."""


class _Key(NamedTuple):
    low: str
    high: str
    about: str


def save_strip(
    trace: ImageTrace,
    path: Path,
    *,
    layer: Choice = None,
    head: Choice = None,
    title: str = "",
    each: bool = False,
) -> list[str]:
    """Draw the image, and for each word the weights of one layer and head, or the mean; .png, .svg or .pdf.

    With "all", every layer or head has its own rows. All words share one scale; with `each`, every word has its own.
    Returns notes for the user.
    """
    chosen = trace.shown()
    if not trace.look().size:
        raise DisplayError(f"There is nothing to draw: the trace has {len(trace.words)} words.")
    runs = trace.chosen(layer, head)
    looks = [trace.look(*run)[chosen] for run in runs]
    strongest = top(np.concatenate(looks))
    size = _Size.of(trace.image, len(chosen) + 1)
    image = fitted(trace.image, size.pixels)
    rows = []
    for run, look in zip(runs, looks, strict=True):
        named = [f"{what} {index}" for what, index in zip(("layer", "head"), run, strict=True) if index is not None]
        name = ", ".join(named) if len(runs) > 1 else ""
        rows.append([_plain(trace.image, name), *_panels(trace, look, image, None if each else strongest)])
    more = "+" if max(float(look.max()) for look in looks) > strongest else ""
    high = "each word's max" if each else f"{_number(strongest)}{more}"
    about = trace.caption(*((None, None) if len(runs) > 1 else runs[0]))
    about = about.partition(" · ")[0] if len(runs) > 1 else about
    return _save(path, _Sheet(image, rows, size, _Key("0", high, f"weight over {about}"), title))


def _panels(
    trace: ImageTrace, look: NDArray[np.float32], image: NDArray[np.uint8], strongest: float | None
) -> list[_Panel]:
    """Return a panel for each shown word, on the given scale or on its own."""
    labels = friendly(trace.words, trace.trace.special)
    height, width = trace.image.shape[:2]
    panels = []
    for place, weights in zip(trace.shown(), look, strict=True):
        most = float(weights.max())
        spread = trace.regions.field(weights, *image.shape[:2])
        outlines = trace.outlines[place] if trace.outlines else ()
        panels.append(
            _Panel(
                labels[place],
                " · ".join([f"max {_number(most)}", *_sum(weights)]),
                spread / (strongest or most or 1.0),
                tuple((left / width, up / height, right / width, low / height) for left, up, right, low in outlines),
                trace.regions.place(int(weights.argmax())) if trace.boxes is not None and most > 0 else None,
            )
        )
    return panels


def _plain(image: NDArray[np.uint8], name: str = "") -> _Panel:
    return _Panel(name, f"{image.shape[1]} × {image.shape[0]} px", None)


def save_maps(image: NDArray[np.uint8], maps: Sequence[HeatMap], path: Path, *, title: str = "") -> list[str]:
    """Draw the image, and beside it each map over it, such as Grad-CAM for several classes and attention rollout.

    Such maps are not distributions, and methods differ in scale: each map has its own.
    """
    if not maps:
        raise DisplayError("There is nothing to draw: no heat map was given.")
    size = _Size.of(image, len(maps) + 1)
    picture = fitted(image, size.pixels)
    drawn = [_plain(image)]
    for each in maps:
        values = np.clip(np.nan_to_num(each.cells), 0, None).astype(np.float32)
        if values.ndim != 2 or not values.size:
            raise DisplayError(f"The heat map {each.name!r} must be rows × columns, got {each.cells.shape}.")
        spread = Regions((values.shape[0], values.shape[1]), None, image.shape).field(values, *picture.shape[:2])
        drawn.append(_Panel(each.name, each.note, spread / (float(values.max()) or 1.0)))
    return _save(path, _Sheet(picture, [drawn], size, _Key("0", "each map's max", ""), title))


def _number(weight: float) -> str:
    return f"{weight:.2f}" if weight >= 0.0995 else f"{weight:.2g}"


def _sum(weights: NDArray[np.float32]) -> list[str]:
    """Return the sum of the weights if it is not one: other cells or tokens have the rest."""
    total = float(weights.sum())
    return [] if abs(total - 1) < 0.005 else [f"sum {total:.2f}"]


class _Size(NamedTuple):
    """Size of a picture within a panel, in inches and in pixels."""

    width: float
    height: float
    pixels: int

    @classmethod
    def of(cls, image: NDArray[np.uint8], panels: int) -> "_Size":
        height, width = pixels_of(image).shape[:2]
        longest = float(np.interp(panels, [6, 30], [1.75, 1.2]))
        share = longest / max(height, width)
        return cls(width * share, height * share, 320 if panels <= 12 else 224)


class _Sheet(NamedTuple):
    image: NDArray[np.uint8]
    runs: list[list[_Panel]]
    """Each starts a new row, and wraps if it is long."""
    size: _Size
    key: _Key
    title: str

    @property
    def room(self) -> float:
        """Width of a panel with its caption."""
        return max(self.size.width, _LEAST)

    def placed(self) -> tuple[float, float, list[tuple[_Panel, float, float]]]:
        """Return the total width and height, and each panel with the left and upper edge of its picture."""
        longest = max(map(len, self.runs))
        fit = min(longest, max(1, int((WIDEST + _GAP) / (self.room + _GAP))))
        across = -(-longest // -(-longest // fit))  # rows of equal length
        rows = [run[start : start + across] for run in self.runs for start in range(0, len(run), across)]
        wide, tall = across * (self.room + _GAP) - _GAP, len(rows) * (self.size.height + _ROW)
        indent = (self.room - self.size.width) / 2
        places = [
            (panel, column * (self.room + _GAP) + indent, tall - row * (self.size.height + _ROW))
            for row, panels in enumerate(rows)
            for column, panel in enumerate(panels)
        ]
        return wide, tall, places

    def draw(self, figure: "Figure") -> None:
        """Draw the panels row by row, and the scale below."""
        wide, tall, places = self.placed()
        figure.set_size_inches(wide, tall)
        width, height = self.size.width, self.size.height
        for panel, left, up in places:
            low = (up - height) / tall
            self._panel(figure.add_axes((left / wide, low, width / wide, height / tall)), panel)
            self._caption(figure, panel, (left + width / 2) / wide, low, tall)
        self._scale(figure, wide, tall)
        if self.title:
            figure.text(0, 1 + 0.14 / tall, self.title, size=12, weight="bold", va="bottom", parse_math=False)

    def _panel(self, axes: "Axes", panel: _Panel) -> None:
        shown = self.image if panel.shares is None else overlaid(self.image, panel.shares)
        axes.imshow(shown, extent=(0, 1, 1, 0), aspect="auto", interpolation="none")
        axes.set(xlim=(0, 1), ylim=(1, 0), xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.5, color=LINES)
        from matplotlib.patches import Rectangle

        marked = [(box, "--") for box in panel.outlines] + [(box, "-") for box in [panel.strongest] if box]
        for (left, up, right, low), style in marked:
            for colour, line in (("#000000", 2.0), ("#ffffff", 1.0)):  # visible on any background
                dashes = style if colour == "#ffffff" else "-"
                axes.add_patch(
                    Rectangle((left, up), right - left, low - up, fill=False, color=colour, lw=line, ls=dashes)
                )

    def _caption(self, figure: "Figure", panel: _Panel, x: float, y: float, tall: float) -> None:
        """Write the word, smaller or shortened if necessary, and its note below."""
        fit = self.room * 72 / _LETTER
        points = min(_POINTS, max(_SMALLEST, fit / max(cells(panel.name), 1)))
        name = shorten(panel.name, int(fit / points))
        figure.text(x, y - 0.06 / tall, name, size=points, color=INK, ha="center", va="top", parse_math=False)
        under = y - (0.25 if panel.name else 0.06) / tall
        note = shorten(panel.note, int(self.room * 72 / _LETTER / _NOTE))
        figure.text(x, under, note, size=_NOTE, color=FAINT, ha="center", va="top", parse_math=False)

    def _scale(self, figure: "Figure", wide: float, tall: float) -> None:
        """Draw the colour scale as it looks over this image, and what it means."""
        length, high, below = min(1.6, wide * 0.5), 0.11, 0.22
        start = 0.12
        axes = figure.add_axes((start / wide, -below / tall, length / wide, high / tall))
        axes.imshow(key_colours(self.image), extent=(0, 1, 1, 0), aspect="auto", interpolation="none")
        axes.set(xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.4, color=LINES)
        y = (high / 2 - below) / tall
        figure.text((start - 0.05) / wide, y, self.key.low, size=8, color=FAINT, ha="right", va="center")
        after = (start + length + 0.05) / wide
        text = " · ".join(filter(None, [self.key.high, self.key.about]))
        figure.text(after, y, text, size=8, color=FAINT, ha="left", va="center", parse_math=False)


def _save(path: Path, sheet: _Sheet) -> list[str]:
    return save_figure(path, [*(panel.name for run in sheet.runs for panel in run), sheet.title], sheet.draw)
