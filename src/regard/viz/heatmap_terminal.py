"""Attention as a heat map in a terminal: a row for each target token, a column for each source token.

A matrix that is too wide is split into blocks of columns; in each block, rows whose weights are all in other blocks
are folded. Column labels are staggered if there is room

    the
    │  red
    │  │  dress

and vertical otherwise. Each row ends with the source token that has the largest weight.
"""

from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from regard.viz import colour_scale
from regard.viz.token_labels import cells, for_terminal, friendly, isolate, letters, shorten
from regard.viz.trace import AttentionTrace

NARROWEST = 20
"""A narrower terminal is treated as this wide."""

_DIM, _RESET = "\x1b[2m", "\x1b[0m"
_UPRIGHT = 14
_FOLD = 3
_Pieces = list[tuple[int, str, bool]]


def heatmap(
    trace: AttentionTrace, *, width: int = 80, color: bool, layer: int | None = None, head: int | None = None
) -> str:
    """Draw a layer and head (or the mean over those not given) within `width` columns, without a final newline.

    `color` uses the 256-colour palette, which all common terminals have; without it there are five shades of grey.
    """
    look = np.nan_to_num(trace.look(layer, head))
    if not look.size:
        return f"(nothing to show: {len(trace.source)} source tokens, {len(trace.target)} target tokens)"
    grid = _Grid.fit(trace, look, max(width, NARROWEST), color)
    blocks = [grid.block(start) for start in range(0, len(grid.source), grid.columns)]
    return "\n".join(
        [*("\n".join(lines) + "\n" for lines in blocks[:-1]), *blocks[-1], grid.legend(trace, layer, head)]
    )


@dataclass(frozen=True)
class _Grid:
    """The layout."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    faint: frozenset[str]
    look: NDArray[np.float32]
    width: int
    color: bool
    left: int
    """Cells before the first column."""
    cell: int
    """Width of one column."""
    columns: int
    """Columns in a block."""
    right: int
    """Cells for the name of the strongest source token; 0 if it is left out."""

    @classmethod
    def fit(cls, trace: AttentionTrace, look: NDArray[np.float32], width: int, color: bool) -> "_Grid":
        """Choose the widest cells that keep all columns side by side; if none do, divide the columns evenly."""
        source = tuple(for_terminal(label) for label in friendly(trace.source, trace.special))
        target = tuple(for_terminal(label) for label in friendly(trace.target, trace.special))
        left = min(max(map(cells, target)), width // 4) + 1
        right = min(max(map(cells, source)), width // 5) + 6
        count = len(source)
        cell = 2
        if count * 2 <= width - left < count * 2 + right:
            right = 0
        elif count * 2 <= width - left - right:
            cell = min((width - left - right) // count, 4)
        elif width < 40:
            right = 0
        blocks = -(-count // ((width - left - right) // cell))
        faint = frozenset(trace.special)
        return cls(source, target, faint, look, width, color, left, cell, -(-count // blocks), right)

    def block(self, start: int) -> list[str]:
        """Draw the columns from `start` on: a title if there are several blocks, labels, rows."""
        stop = min(start + self.columns, len(self.source))
        lines = self.header(start, stop)
        if self.columns < len(self.source):
            lines.insert(0, self.dim(shorten(f"source {start + 1}–{stop} of {len(self.source)}", self.width)))
        levels = colour_scale.levels(self.look, len(colour_scale.RAMP if self.color else colour_scale.SHADES))[
            :, start:stop
        ]
        strongest = self.look.argmax(axis=1)
        empty = ~levels.any(axis=1) & ~((start <= strongest) & (strongest < stop))
        for is_empty, rows in groupby(range(len(self.target)), key=lambda row: bool(empty[row])):
            run = list(rows)
            if is_empty and len(run) >= _FOLD:
                fold = f"{'⋮':>{self.left - 1}} {len(run)} rows attend elsewhere"
                lines.append(self.dim(shorten(fold, self.width)))
            else:
                lines += [self.row(row, levels[row], int(strongest[row]) - start) for row in run]
        return lines

    def row(self, row: int, levels: NDArray[np.int64], best: int) -> str:
        """Draw a target token, its cells, and its strongest source token if that is column `best` of this block."""
        label = shorten(self.target[row], self.left - 1)
        line = " " * (self.left - 1 - cells(label)) + self.name(label) + " " + self.shade(levels)
        weight = self.look[row].max()
        if self.right and 0 <= best < len(levels) and weight > 0:
            word = shorten(self.source[int(self.look[row].argmax())], self.right - 6)
            line += f" {self.name(word)}" + self.dim(f" {weight:.0%}")
        return line.rstrip()

    def header(self, start: int, stop: int) -> list[str]:
        """Return the column labels, staggered or vertical; staggered, as more readable, may take a few lines more."""
        stairs, upright = self.stairs(start, stop), self.upright(start, stop)
        return stairs if stairs and len(stairs) <= len(upright) + 3 else upright

    def stairs(self, start: int, stop: int) -> list[str]:
        """Write each label from its column to the right, above labels that it would overlap."""
        labels = [shorten(label, self.width // 4) for label in self.source[start:stop]]
        places = [self.left + i * self.cell + (self.cell - 1) // 2 for i in range(len(labels))]
        ends = [place + cells(label) for place, label in zip(places, labels, strict=True)]
        if max(ends) > self.width:
            return []
        level = [0] * len(labels)
        for i in reversed(range(len(labels))):
            level[i] = max((level[j] + 1 for j in range(i + 1, len(labels)) if places[j] <= ends[i]), default=0)
        lines = []
        for height in reversed(range(max(level) + 1)):
            pieces: _Pieces = []
            for i, label in enumerate(labels):
                if level[i] == height:
                    pieces.append((places[i], label, label in self.faint))
                elif level[i] > height:
                    pieces.append((places[i], "│", True))
            lines.append(self.line(pieces))
        return lines

    def upright(self, start: int, stop: int) -> list[str]:
        """Write each label vertically."""
        labels = [shorten(label, _UPRIGHT) for label in self.source[start:stop]]
        parts = [letters(label) for label in labels]
        tallest = max(map(len, parts))
        lines = []
        for height in range(tallest, 0, -1):
            pieces = [
                (self.left + i * self.cell + (self.cell - 1) // 2, part[-height], label in self.faint)
                for i, (label, part) in enumerate(zip(labels, parts, strict=True))
                if len(part) >= height
            ]
            lines.append(self.line(pieces))
        return lines

    def line(self, pieces: _Pieces) -> str:
        """Place texts at their columns, from left to right."""
        text, at = "", 0
        for place, piece, faint in pieces:
            text += " " * (place - at) + (self.dim(isolate(piece)) if faint else isolate(piece))
            at = place + cells(piece)
        return text

    def shade(self, levels: NDArray[np.int64]) -> str:
        """Draw one row of cells."""
        if not self.color:
            return "".join(colour_scale.SHADES[level] * self.cell for level in levels)
        runs = ((level, " " * self.cell * len(list(run))) for level, run in groupby(levels))
        return "".join(f"\x1b[48;5;{colour_scale.RAMP[level]}m{run}" for level, run in runs) + _RESET

    def name(self, label: str) -> str:
        """Write a token, dimmed if special."""
        return self.dim(isolate(label)) if label in self.faint else isolate(label)

    def dim(self, text: str) -> str:
        """Dim secondary text."""
        return f"{_DIM}{text}{_RESET}" if self.color else text

    def legend(self, trace: AttentionTrace, layer: int | None, head: int | None) -> str:
        """Write the colour scale, what was averaged, and the score."""
        count = len(colour_scale.RAMP if self.color else colour_scale.SHADES)
        bar = replace(self, cell=1).shade(np.arange(count))
        text = " " + " · ".join(filter(None, [f"{colour_scale.top(self.look):.1f}", trace.caption(layer, head)]))
        return " " * self.left + self.dim("0 ") + bar + self.dim(shorten(text, self.width - self.left - 2 - count))
