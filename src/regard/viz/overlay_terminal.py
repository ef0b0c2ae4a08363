"""Attention over an image in a terminal: for each word a small picture, warm where the model looked.

With colour, a half block `▀` is two pixels, one above the other: the image is seen, and the heat on it. Without, there
are characters by strength, and no image. Pictures stand side by side, in as many rows as the width asks for.
"""

import os
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.viz import scale
from regard.viz.labels import cells, for_terminal, friendly, isolate, shorten
from regard.viz.overlay import ImageTrace
from regard.viz.overlay_heat import key_colours, overlaid, pixels_of, shrunk, top
from regard.viz.terminal import NARROWEST

_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_WIDEST, _TALLEST = 28, 36
"""Of one picture, in columns and in pixels (two to a line)."""
_STEPS = (0, 95, 135, 175, 215, 255)
_PALETTE = np.array([*product(_STEPS, _STEPS, _STEPS), *((grey,) * 3 for grey in range(8, 248, 10))], dtype=np.int64)
"""Entries 16 to 255 of the palette of 256: a cube of colours, and greys."""
_GAP = 2

_Bytes = NDArray[np.uint8]


def picture_rows(
    trace: ImageTrace, *, width: int = 80, color: bool, layer: int | None = None, head: int | None = None
) -> str:
    """Draw the image and a picture for each word within `width` columns, no newline at the end.

    Colours are of 24 bits where the terminal says that it has them (COLORTERM), else of the palette of 256.
    """
    look, chosen = trace.look(layer, head), trace.shown()
    if not look.size:
        return f"(nothing to show: {len(trace.words)} words)"
    width = max(width, NARROWEST)
    sheet = _Sheet.fit(trace, width, color)
    strongest = top(look[chosen])
    labels = friendly(trace.words, trace.trace.special)
    panels = [sheet.panel("", None)] if color else []
    for place in chosen:
        spread = trace.regions.field(look[place], sheet.height, sheet.width)
        panels.append(sheet.panel(labels[place], spread / strongest))
    across = max(1, (width + _GAP) // (sheet.width + _GAP))
    rows = [panels[start : start + across] for start in range(0, len(panels), across)]
    lines = [(" " * _GAP).join(parts).rstrip() for row in rows for parts in zip(*row, strict=True)]
    more = "+" if float(look[chosen].max()) > strongest else ""
    about = f" {strongest:.2g}{more} · {trace.caption(layer, head)}"
    bar = sheet.bar()
    return "\n".join([*lines, sheet.dim("0 ") + bar + sheet.dim(shorten(about, width - 2 - _BAR))])


_BAR = 10


class _Sheet(NamedTuple):
    image: _Bytes
    """At the size of one picture."""
    color: bool
    true_color: bool

    @property
    def height(self) -> int:
        """Pixels, two to a line."""
        return self.image.shape[0]

    @property
    def width(self) -> int:
        """Pixels, one to a column."""
        return self.image.shape[1]

    @classmethod
    def fit(cls, trace: ImageTrace, width: int, color: bool) -> "_Sheet":
        """Make pictures as large as lets several stand side by side, with an even number of pixels upward."""
        image = pixels_of(trace.image)
        tall, wide = image.shape[:2]
        room = width if width < 2 * 12 + _GAP else max((width + _GAP) // (3 if width < 100 else 4) - _GAP, 12)
        share = min(min(room, _WIDEST) / wide, _TALLEST / tall)
        columns, lines = max(round(wide * share), 1), max(round(tall * share / 2), 1)
        true_color = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
        return cls(shrunk(image, lines * 2, columns), color, true_color)

    def panel(self, name: str, shares: NDArray[np.float32] | None) -> list[str]:
        """Draw one picture and its word below, every line `width` columns wide."""
        label = shorten(for_terminal(name), self.width) if name else ""
        left = (self.width - cells(label)) // 2
        caption = " " * left + isolate(label) + " " * (self.width - cells(label) - left)
        if not self.color:
            assert shares is not None
            pairs = np.clip(shares.reshape(self.height // 2, 2, self.width).max(axis=1), 0, 1)
            drawn = (pairs * (len(scale.SHADES) - 1) + 0.5).astype(np.int64)
            return ["".join(scale.SHADES[level] for level in row).replace(" ", "·") for row in drawn] + [caption, " " * self.width]
        shown = self.image if shares is None else overlaid(self.image, np.clip(shares, 0, 1))
        return [self.line(shown[row], shown[row + 1]) for row in range(0, self.height, 2)] + [caption, " " * self.width]

    def line(self, upper: _Bytes, lower: _Bytes) -> str:
        """Draw two rows of pixels as one line; a colour is only told where it changes."""
        parts, before = [], ("", "")
        for pair in zip(self.names(38, upper), self.names(48, lower), strict=True):
            told = [new for new, old in zip(pair, before, strict=True) if new != old]
            parts.append(f"\x1b[{';'.join(told)}m▀" if told else "▀")
            before = pair
        return "".join(parts) + _RESET

    def names(self, what: int, row: _Bytes) -> list[str]:
        """Name the colours of letters (38) or of their grounds (48)."""
        if self.true_color:
            return [f"{what};2;{red};{green};{blue}" for red, green, blue in row.tolist()]
        nearest = ((row.astype(np.int64)[:, None] - _PALETTE) ** 2).sum(axis=-1).argmin(axis=1)
        return [f"{what};5;{16 + number}" for number in nearest.tolist()]

    def bar(self) -> str:
        """Draw the scale."""
        if not self.color:
            return "".join(shade * 2 for shade in scale.SHADES).replace(" ", "·")
        row = key_colours(self.image, _BAR)[0]
        return self.line(row, row)

    def dim(self, text: str) -> str:
        """Set back what is not the picture."""
        return f"{_DIM}{text}{_RESET}" if self.color else text
