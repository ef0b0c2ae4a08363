"""Attention over an image: a trace whose source is the cells of a grid, or boxes, in the image."""

import base64
import binascii
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz.overlay_heat import Regions, pixels_of
from regard.viz.picture_files import check_suffix, warn, write_output
from regard.viz.png import from_png, png
from regard.viz.trace import FORMS, AttentionTrace, Choice, read_record

FORMAT = "regard-image-trace-1"
Box = tuple[float, float, float, float]
"""Left, top, right, bottom, in pixels of the image."""


@dataclass(frozen=True, eq=False)
class ImageTrace:
    """An `AttentionTrace` with its image: the target is words, the source regions of the image.

    The words may be a caption, one answer, or the names of classes. Regions are the cells of a grid over the whole
    image, row by row (`grid` has rows and columns), or boxes in it (`boxes` has one row for each). All layers and heads
    are kept, and displayed one at a time or as a mean, like any trace.
    """

    trace: AttentionTrace
    image: NDArray[np.uint8]
    """Height × width × 3, or × 1 for grey, of any size."""
    grid: tuple[int, int] | None = None
    boxes: NDArray[np.float32] | None = None
    """Regions × 4: left, top, right, bottom, in pixels of the image."""
    outlines: tuple[tuple[Box, ...], ...] = ()
    """Boxes to outline for each word, such as those of the object that it names; empty for none."""

    def __post_init__(self) -> None:
        pixels_of(self.image)
        count = len(self.trace.source)
        if (self.grid is None) == (self.boxes is None):
            raise DisplayError(
                "Attention over an image is over the cells of a grid or over boxes: give one of the two."
            )
        if self.grid is not None and (min(self.grid) < 1 or self.grid[0] * self.grid[1] != count):
            rows, columns = self.grid
            raise DisplayError(f"A grid of {rows} × {columns} cells does not match {count} weights per word.")
        if self.boxes is not None and self.boxes.shape != (count, 4):
            raise DisplayError(f"{count} weights per word need boxes of shape ({count}, 4), got {self.boxes.shape}.")
        if len(self.outlines) not in (0, len(self.words)):
            raise DisplayError(
                f"Outlines must be given for each word ({len(self.words)}) or for none, got {len(self.outlines)}."
            )

    @classmethod
    def of(
        cls,
        image: NDArray[np.uint8],
        words: Sequence[str],
        weights: NDArray[Any],
        *,
        boxes: NDArray[Any] | None = None,
        outlines: Sequence[Sequence[Box]] = (),
    ) -> "ImageTrace":
        """Build one from plain arrays.

        Weights over a grid are words × rows × columns, optionally with leading axes for layers and heads (layers ×
        heads × words × rows × columns). Weights over boxes have one axis of regions instead of rows and columns.
        """
        own = 3 if boxes is None else 2
        if weights.ndim < own or weights.ndim > own + 2:
            kind = "words × rows × columns" if boxes is None else "words × boxes"
            raise DisplayError(f"Weights must be {kind}, optionally after layers and heads, got {weights.shape}.")
        grid = (weights.shape[-2], weights.shape[-1]) if boxes is None else None
        flat = weights.reshape(*weights.shape[:-2], -1) if grid else weights
        flat = flat.reshape(*(1,) * (4 - flat.ndim), *flat.shape).astype(np.float32)
        names = cell_names(grid) if grid else tuple(f"box {number}" for number in range(1, flat.shape[-1] + 1))
        trace = AttentionTrace(names, tuple(words), flat, (), None)
        kept = None if boxes is None else np.asarray(boxes, np.float32)
        return cls(trace, image, grid, kept, tuple(tuple(some) for some in outlines))

    @property
    def words(self) -> tuple[str, ...]:
        """The output, token by token."""
        return self.trace.target

    @property
    def regions(self) -> Regions:
        """What the weights are over."""
        return Regions(self.grid, self.boxes, self.image.shape[:2])

    def look(self, layer: int | None = None, head: int | None = None) -> NDArray[np.float32]:
        """Return words × regions: a layer and head, or the mean over those not given."""
        return np.nan_to_num(self.trace.look(layer, head), posinf=0.0, neginf=0.0)

    def every_head(self, layer: int | None = None) -> list[tuple[int, int]]:
        """Return (layer, head) pairs, of one layer or all."""
        return self.trace.every_head(layer)

    def chosen(self, layer: Choice, head: Choice) -> list[tuple[int | None, int | None]]:
        """Return the requested (layer, head) pairs; None stands for the mean."""
        layers, heads = self.trace.weights.shape[:2]
        self.look(None if layer == "all" else layer, None if head == "all" else head)  # raises if they do not exist
        downs = [*range(layers)] if layer == "all" else [layer if layer is None else layer % layers]
        acrosses = [*range(heads)] if head == "all" else [head if head is None else head % heads]
        return [(down, across) for down in downs for across in acrosses]

    def caption(self, layer: int | None = None, head: int | None = None) -> str:
        """Describe the result of `look`: `8 × 8 cells, 0.016 each if uniform · mean of 4 heads`."""
        count = len(self.trace.source)
        what = f"{self.grid[0]} × {self.grid[1]} cells" if self.grid else f"{count} boxes"
        even = f"{what}, {1 / count:.2g} each if uniform" if count > 1 else what
        return " · ".join(filter(None, [even, self.trace.caption(layer, head)]))

    def shown(self) -> list[int]:
        """Return the positions of the words to show: not special tokens, unless there is nothing else."""
        text = [place for place, word in enumerate(self.words) if word not in self.trace.special]
        return text or [*range(len(self.words))]

    def render(self, width: int = 80, color: bool = False, *, layer: int | None = None, head: int | None = None) -> str:
        """Draw it for a terminal of the given width; see `regard.viz.overlay_terminal`."""
        from regard.viz.overlay_terminal import picture_rows

        return picture_rows(self, width=width, color=color, layer=layer, head=head)

    def __str__(self) -> str:
        return self.render() if self.trace.weights.size else f"{' '.join(self.words)} (no attention)"

    def __repr__(self) -> str:
        layers, heads, rows, _ = self.trace.weights.shape
        what = f"{self.grid[0]} × {self.grid[1]} cells" if self.grid else f"{len(self.trace.source)} boxes"
        return f"<ImageTrace of {layers} layers × {heads} heads, {rows} words over {what}>"

    def save(
        self,
        path: str | Path,
        *,
        layer: Choice = None,
        head: Choice = None,
        title: str = "",
        each: bool = False,
        quiet: bool = False,
    ) -> list[str]:
        """Write a strip (.png, .svg, .pdf), a page (.html) or the trace itself (.json), atomically.

        A strip shows one layer and head, the mean (not given) or rows for each ("all"); a page opens with one or the
        mean, and can switch. `each` gives each word a scale of its own, up to its largest weight. Returns notes for the
        user, as `AttentionTrace.save` does.
        """
        path = Path(path)
        suffix = check_suffix(path, FORMS)
        if suffix == ".json":
            text = json.dumps(self.to_json(), ensure_ascii=False) + "\n"
            write_output(path, text.encode(errors="backslashreplace"))
            return []
        if suffix == ".html":
            from regard.viz.overlay_page import image_page

            first = self.chosen(layer, head)[0] if "all" not in (layer, head) else (None, None)
            page = image_page(self, layer=first[0], head=first[1], title=title, each=each)
            write_output(path, page.encode(errors="backslashreplace"))
            return []
        from regard.viz.overlay_picture import save_strip

        notes = save_strip(self, path, layer=layer, head=head, title=title, each=each)
        if not quiet:
            warn(notes)
        return notes

    @classmethod
    def load(cls, path: str | Path) -> "ImageTrace":
        """Read a .json file that `save` wrote."""
        return read_record(path, cls.from_json)

    def to_json(self) -> dict[str, Any]:
        """Return plain lists and strings, the image as PNG in base 64; `from_json` reads it."""
        return {
            "format": FORMAT,
            "image": base64.b64encode(png(self.image)).decode(),
            "grid": None if self.grid is None else list(self.grid),
            "boxes": None if self.boxes is None else self.boxes.astype(float).round(3).tolist(),
            "outlines": [[list(map(float, box)) for box in some] for some in self.outlines],
            "trace": self.trace.to_json(),
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> "ImageTrace":
        """Read the result of `to_json`."""
        if (found := record.get("format")) != FORMAT:
            raise DisplayError(f"Not attention over an image: 'format' is {found!r}, expected {FORMAT!r}.")
        try:
            return cls(
                trace=AttentionTrace.from_json(record["trace"]),
                image=from_png(base64.b64decode(record["image"], validate=True)),
                grid=None if record["grid"] is None else _two(record["grid"]),
                boxes=None if record["boxes"] is None else np.array(record["boxes"], np.float32).reshape(-1, 4),
                outlines=tuple(tuple(map(_four, some)) for some in record["outlines"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, binascii.Error) as error:
            raise DisplayError(f"Not a whole trace over an image: {type(error).__name__}: {error}.") from error


def cell_names(grid: tuple[int, int]) -> tuple[str, ...]:
    """Name the cells of a grid, row by row, counted from 1, as the source tokens of a trace."""
    return tuple(_names(*grid))


def _names(rows: int, columns: int) -> Iterator[str]:
    for row in range(1, rows + 1):
        for column in range(1, columns + 1):
            yield f"{row},{column}"


def _two(values: Sequence[int]) -> tuple[int, int]:
    rows, columns = values
    return rows, columns


def _four(values: Sequence[float]) -> Box:
    left, top, right, bottom = values
    return left, top, right, bottom
