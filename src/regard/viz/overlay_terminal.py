"""Attention over an image in a terminal: for each word a small picture with its heat map.

With colour, a half block `▀` is two pixels, one above the other, and shows the image with the heat. Without colour,
characters show the heat alone. Pictures are side by side, in as many rows as the width requires.
"""

import os
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.viz import colour_scale
from regard.viz.heatmap_terminal import NARROWEST
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_heat import key_colours, overlaid, pixels_of, shrunk, top
from regard.viz.token_labels import cells, for_terminal, friendly, isolate, shorten

_SHADES = "·" + colour_scale.SHADES[1:]
_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_WIDEST, _TALLEST = 28, 36
"""Maximum size of a picture, in columns and in pixels (two per line)."""
_STEPS = (0, 95, 135, 175, 215, 255)
_PALETTE = np.array([*product(_STEPS, _STEPS, _STEPS), *((grey,) * 3 for grey in range(8, 248, 10))], dtype=np.int64)
"""Entries 16 to 255 of the 256-colour palette: a colour cube, and greys."""
_BESIDE = (30, 60, 100)
"""Terminal widths from which on there are two, three and four pictures side by side, unless they are narrow."""
_GAP, _LEAST, _BAR = 2, 8, 10
"""Columns between pictures, the minimum for a word, and those of the scale."""

_Bytes = NDArray[np.uint8]


def picture_rows(
    trace: ImageTrace, *, width: int = 80, color: bool, layer: int | None = None, head: int | None = None
) -> str:
    """Draw the image and a picture for each word within `width` columns, without a final newline.

    Colours are 24-bit if the terminal advertises them (COLORTERM), else from the 256-colour palette.
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
    across = max(1, (width + _GAP) // (sheet.room + _GAP))
    rows = [panels[start : start + across] for start in range(0, len(panels), across)]
    lines = [(" " * _GAP).join(parts).rstrip() for row in rows for parts in zip(*row, strict=True)]
    more = "+" if float(look[chosen].max()) > strongest else ""
    about = f" {strongest:.2g}{more} · {trace.caption(layer, head)}"
    key = sheet.dim("0 ") + sheet.bar() + sheet.dim(shorten(about, width - 2 - _BAR))
    return "\n".join([*lines, key])


class _Sheet(NamedTuple):
    image: _Bytes
    """At the size of one picture."""
    color: bool
    true_color: bool

    @property
    def height(self) -> int:
        """Pixels, two per line."""
        return len(self.image)

    @property
    def width(self) -> int:
        """Pixels, one per column."""
        return len(self.image[0])

    @property
    def room(self) -> int:
        """Columns of a picture or the word below it."""
        return max(self.width, _LEAST)

    @classmethod
    def fit(cls, trace: ImageTrace, width: int, color: bool) -> "_Sheet":
        """Choose the size of pictures that lets several fit side by side, with an even number of pixel rows."""
        image = pixels_of(trace.image)
        tall, wide = image.shape[:2]
        beside = int(np.searchsorted(_BESIDE, width, side="right")) + 1
        room = (width + _GAP) // beside - _GAP
        share = min(min(room, _WIDEST) / wide, _TALLEST / tall)
        columns, lines = max(round(wide * share), 1), max(round(tall * share / 2), 1)
        true_color = os.environ.get("COLORTERM", "").lower() in ("truecolor", "24bit")
        return cls(shrunk(image, lines * 2, columns), color, true_color)

    def panel(self, name: str, shares: NDArray[np.float32] | None) -> list[str]:
        """Draw one picture and its word below, every line at full width."""
        label = shorten(for_terminal(name), self.room) if name else ""
        drawn = self.shade(shares) if shares is not None and not self.color else self.blocks(shares)
        lines = [*((line, self.width) for line in drawn), (isolate(label), cells(label)), ("", 0)]
        return [" " * ((self.room - wide) // 2) + line + " " * -(-(self.room - wide) // 2) for line, wide in lines]

    def shade(self, shares: NDArray[np.float32]) -> list[str]:
        """Draw the heat alone, by characters; zero is a dot, so that the picture's edges are visible."""
        pairs = np.clip(shares.reshape(self.height // 2, 2, self.width).max(axis=1), 0, 1)
        levels = (pairs * (len(_SHADES) - 1) + 0.5).astype(np.int64)
        return ["".join(_SHADES[level] for level in row) for row in levels]

    def blocks(self, shares: NDArray[np.float32] | None) -> list[str]:
        """Draw the image, with heat if given."""
        shown = self.image if shares is None else overlaid(self.image, shares)
        return [self.line(shown[row], shown[row + 1]) for row in range(0, self.height, 2)]

    def line(self, upper: _Bytes, lower: _Bytes) -> str:
        """Draw two rows of pixels as one line; colour codes are written only where the colour changes."""
        parts, before = [], ("", "")
        for pair in zip(self.names(38, upper), self.names(48, lower), strict=True):
            codes = [new for new, old in zip(pair, before, strict=True) if new != old]
            parts.append(f"\x1b[{';'.join(codes)}m▀" if codes else "▀")
            before = pair
        return "".join(parts) + _RESET

    def names(self, what: int, row: _Bytes) -> list[str]:
        """Return the colour codes of foregrounds (38) or backgrounds (48)."""
        if self.true_color:
            return [f"{what};2;{red};{green};{blue}" for red, green, blue in row.tolist()]
        nearest = ((row.astype(np.int64)[:, None] - _PALETTE) ** 2).sum(axis=-1).argmin(axis=1)
        return [f"{what};5;{16 + number}" for number in nearest.tolist()]

    def bar(self) -> str:
        """Draw the scale."""
        if not self.color:
            return "".join(shade * (_BAR // len(_SHADES)) for shade in _SHADES)
        row = key_colours(self.image, _BAR)[0]
        return self.line(row, row)

    def dim(self, text: str) -> str:
        """Dim secondary text."""
        return f"{_DIM}{text}{_RESET}" if self.color else text
