"""Attention as a picture: source on top, target on the left, darker where the model looked."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz import scale
from regard.viz.figure import FAINT, INK, LINES, save_figure
from regard.viz.labels import cells, friendly
from regard.viz.trace import AttentionTrace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Choice = int | Literal["all"] | None

_ACROSS = 4
_GAP = 0.35
_MANY_CELLS = 20_000


class _Panel(NamedTuple):
    name: str
    look: NDArray[np.float32]


def save_picture(
    trace: AttentionTrace, path: Path, *, layer: Choice = None, head: Choice = None, title: str = ""
) -> list[str]:
    """Draw the given layer and head, the mean over those not given, or a panel for each of "all".

    The suffix says what is written: .png, .svg or .pdf. Returns notes for the user, such as letters without a font.
    """
    rows = _panels(trace, layer, head)
    if not rows[0][0].look.size:
        have = f"{len(trace.source)} source and {len(trace.target)} target tokens"
        raise DisplayError(f"There is nothing to draw: the trace has {have}.")
    source, target = friendly(trace.source, trace.special), friendly(trace.target, trace.special)
    caption = trace.caption(layer if isinstance(layer, int) else None, head if isinstance(head, int) else None)
    if "all" in (layer, head):
        caption = f"score {trace.score:.2f}"

    def draw(figure: "Figure", families: Any) -> None:
        _Sheet(figure, source, target, frozenset(trace.special), len(rows[0]) > 1 or len(rows) > 1).draw(rows, caption, title)

    return save_figure(path, [*source, *target, title], draw)


def _panels(trace: AttentionTrace, layer: Choice, head: Choice) -> list[list[_Panel]]:
    """Arrange what was asked for in rows: layers downward and heads across where both are wanted."""
    layers, heads = trace.weights.shape[:2]
    downs: list[int | None] = [*range(layers)] if layer == "all" else [layer]
    acrosses: list[int | None] = [*range(heads)] if head == "all" else [head]
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
