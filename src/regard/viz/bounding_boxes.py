"""Draw detected objects over an image: boxes, names and masks."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.viz.figure_style import LINES, save_figure
from regard.viz.image_trace import Box
from regard.viz.overlay_heat import fitted, pixels_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#e8384f", "#2a7fff", "#15a34a", "#c2410c", "#8b3ff0", "#0891a5", "#b45309", "#d6249f")
"""Colours of consecutive objects: similar in strength, and easy to tell apart."""
_SIDE = 4.0
"""Inches of the longer side."""
_PIXELS = 640
_LABEL = 16
"""Height of a label with its background, in points."""
_COVER = 0.45
"""Opacity of a mask."""


class Outlined(NamedTuple):
    """An object to draw."""

    name: str
    score: float
    box: Box
    """In pixels of the image."""
    mask: NDArray[np.bool_] | None = None
    """Rows × columns, at most the resolution of the area it covers."""
    over: Box | None = None
    """The area that the mask covers, in pixels of the image; None for all of it."""


def save_boxes(image: NDArray[np.uint8], things: Sequence[Outlined], path: Path) -> list[str]:
    """Draw objects over an image, as .png, .svg or .pdf; return notes for the user."""
    height, width = pixels_of(image).shape[:2]
    share = _SIDE / max(height, width)

    def draw(figure: "Figure") -> None:
        figure.set_size_inches(width * share, height * share)
        axes = figure.add_axes((0, 0, 1, 1))
        shown = fitted(image, _PIXELS)
        axes.imshow(shown, extent=(0, width, height, 0), aspect="auto", interpolation="none")
        axes.set(xlim=(0, width), ylim=(height, 0), xticks=[], yticks=[])
        for spine in axes.spines.values():
            spine.set(linewidth=0.5, color=LINES)
        for number, thing in enumerate(things):
            _draw(axes, thing, COLOURS[number % len(COLOURS)])

    return save_figure(path, [thing.name for thing in things], draw)


def _draw(axes: "Axes", thing: Outlined, colour: str) -> None:
    from matplotlib.colors import to_rgba
    from matplotlib.patches import Rectangle

    if thing.mask is not None:
        tint = np.zeros((*thing.mask.shape, 4), np.float32)
        tint[thing.mask] = to_rgba(colour, _COVER)
        low, high, bottom, top = (*axes.get_xlim(), *axes.get_ylim())
        if thing.over is not None:
            low, top, high, bottom = thing.over
        axes.imshow(tint, extent=(low, high, bottom, top), aspect="auto", interpolation="none")
    left, top, right, bottom = thing.box
    for line, stroke in (("#ffffff", 3.2), (colour, 1.8)):  # visible on any background
        axes.add_patch(Rectangle((left, top), right - left, bottom - top, fill=False, color=line, lw=stroke))
    label = f"{thing.name} {thing.score:.2f}"
    plate = {"facecolor": colour, "edgecolor": "none", "pad": 1.5}
    room = _LABEL * (axes.get_ylim()[0] / (_SIDE * 72))  # in pixels of the image
    above = "bottom" if top > room else "top"  # inside the box if there is no room above it
    axes.text(left, top, label, size=_LABEL / 2, color="#ffffff", va=above, bbox=plate, parse_math=False)
