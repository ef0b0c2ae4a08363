"""A text with its words shaded by their attention weights: in a terminal, as SVG and as HTML.

Subwords are merged to words, whose weights add up. What is written without spaces is shaded token by token.
"""

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.viz import colour_scale
from regard.viz.token_labels import WORD_START, cells, for_terminal, isolate, shorten, visible
from regard.viz.trace import AttentionTrace

LONGEST = 24
"""Characters of a word that is shaded as one: what is longer is hardly one word."""
_MARGIN = 7
"""Cells for a sentence's weight at the left."""
_RESET, _DIM = "\x1b[0m", "\x1b[2m"
_CELL, _LINE, _SIZE = 8.4, 26, 14
"""Of the picture, in pixels: a character, a line, the height of the letters."""


class ShadedSentence(NamedTuple):
    """A sentence of a text."""

    tokens: int
    weight: float


class _Unit(NamedTuple):
    text: str
    weight: float
    spaced: bool
    """Whether a space stands before it."""
    special: bool


def shaded_lines(
    trace: AttentionTrace, *, width: int = 80, color: bool, sentences: Sequence[ShadedSentence] = ()
) -> str:
    """Write the source of a trace of one row within `width` cells, its words shaded, no newline at the end.

    Without `color` the shades stand below the words. With `sentences`, each begins a line of its own, after its weight.
    """
    lines = []
    strongest = max((unit.weight for part in _parts(trace, sentences) for unit in part), default=0.0)
    for part, share in zip(_parts(trace, sentences), _shares(sentences), strict=True):
        margin = "" if share is None else f"{share:>5.0%}  "
        for row in _wrapped(part, max(width, 20) - len(margin)):
            lines += _row(row, margin, strongest, color)
            margin = " " * len(margin)
    return "\n".join(line.rstrip() for line in lines)


def shaded_svg(
    trace: AttentionTrace, *, title: str = "", sentences: Sequence[ShadedSentence] = (), columns: int = 84
) -> str:
    """Draw the same as a picture."""
    strongest = max((unit.weight for part in _parts(trace, sentences) for unit in part), default=0.0)
    ramp = colour_scale.colours(256)
    drawn, top = [], _LINE
    if title:
        drawn.append(f'<text x="8" y="{top}" font-weight="bold">{escape(" ".join(map(visible, title.split())))}</text>')
        top += int(1.4 * _LINE)
    for part, share in zip(_parts(trace, sentences), _shares(sentences), strict=True):
        left = 0 if share is None else _MARGIN
        for number, row in enumerate(_wrapped(part, columns - left)):
            if share is not None and number == 0:
                weight = f"{share:.0%}"
                drawn.append(_box(_MARGIN - 2 - len(weight), top, len(weight), weight, share, ramp))
            at = left
            for unit in row:
                at += int(unit.spaced and at > left)
                wide = cells(unit.text)
                level = unit.weight / strongest if strongest else 0.0
                drawn.append(_box(at, top, wide, unit.text, level, ramp, faint=unit.special))
                at += wide
            top += _LINE
    width, height = round((columns + 2) * _CELL), top - _LINE // 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="ui-monospace, monospace" font-size="{_SIZE}" role="img">\n<rect width="100%" height="100%" '
        f'fill="#fff"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def shaded_html(trace: AttentionTrace, *, sentences: Sequence[ShadedSentence] = ()) -> str:
    """Write the same as part of a page: pointing at a word tells its weight."""
    parts = _parts(trace, sentences)
    strongest = max((unit.weight for part in parts for unit in part), default=0.0)
    ramp = colour_scale.colours(256)
    lines = []
    for part, share in zip(parts, _shares(sentences), strict=True):
        margin = "" if share is None else f'<b style="{_style(share, ramp)}">{share:.0%}</b> '
        words = "".join(
            (" " if unit.spaced and number else "")
            + f'<span style="{_style(unit.weight / strongest if strongest else 0.0, ramp)}" title="{unit.weight:.1%}"'
            + (' class="mark"' if unit.special else "")
            + f">{escape(unit.text)}</span>"
            for number, unit in enumerate(part)
        )
        lines.append(f'<p dir="auto">{margin}{words}</p>')
    return f'<section class="shaded">\n{"".join(line + chr(10) for line in lines)}</section>'


def _style(level: float, ramp: NDArray[np.float64]) -> str:
    fill, ink = _colours(level, ramp)
    return f"background:{fill};color:{ink};border-radius:3px;padding:1px 2px"


def _colours(level: float, ramp: NDArray[np.float64]) -> tuple[str, str]:
    """Return the colours of the ground and of the letters."""
    red, green, blue = (round(255 * float(part)) for part in ramp[min(int(level * 255), 255)])
    return f"rgb({red},{green},{blue})", "#111" if 299 * red + 587 * green + 114 * blue > 128_000 else "#fff"


def _box(at: int, top: int, wide: int, text: str, level: float, ramp: NDArray[np.float64], faint: bool = False) -> str:
    """Draw a text of so many cells over its shade."""
    fill, ink = _colours(level, ramp)
    opacity = ' opacity="0.6"' if faint else ""
    x, across = 8 + at * _CELL, wide * _CELL
    return (
        f'<rect x="{x - 1.5:.1f}" y="{top - 17}" width="{across + 3:.1f}" height="22" rx="3" '
        f'fill="{fill}"/><text x="{x:.1f}" y="{top}" textLength="{across:.1f}" '
        f'lengthAdjust="spacingAndGlyphs" fill="{ink}"{opacity}>{escape(text)}</text>'
    )


def _shares(sentences: Sequence[ShadedSentence]) -> list[float | None]:
    return [sentence.weight for sentence in sentences] or [None]


def _parts(trace: AttentionTrace, sentences: Sequence[ShadedSentence]) -> list[list[_Unit]]:
    """Return the words of each sentence, or of the whole text."""
    weights = np.nan_to_num(trace.look()[0]) if trace.weights.shape[0] else np.zeros(len(trace.source), np.float32)
    stops = np.cumsum([sentence.tokens for sentence in sentences] or [len(trace.source)])
    return [_units(trace, weights, int(start), int(stop)) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def _units(trace: AttentionTrace, weights: NDArray[np.float32], first: int, last: int) -> list[_Unit]:
    words = trace.source_words or tuple(range(len(trace.source)))
    units: list[_Unit] = []
    start = first
    while start < last:
        stop = start + 1
        while stop < last and words[stop] == words[start] >= 0:
            stop += 1
        pieces = [trace.source[place].removeprefix(WORD_START) for place in range(start, stop)]
        if len("".join(pieces)) <= LONGEST:
            total = float(weights[start:stop].sum())
            special = trace.source[start] in trace.special and words[start] < 0
            units.append(_Unit(_shown("".join(pieces)), total, True, special))
        else:
            each = zip(pieces, weights[start:stop], strict=True)
            made = [_Unit(_shown(piece), float(weight), False, False) for piece, weight in each if piece]
            units += [made[0]._replace(spaced=True), *made[1:]]
        start = stop
    return units


def _shown(text: str) -> str:
    return for_terminal(visible(text))


def _wrapped(units: Sequence[_Unit], width: int) -> list[list[_Unit]]:
    """Break lines between units; a unit that is too long for a line is cut."""
    rows: list[list[_Unit]] = [[]]
    used = 0
    for unit in units:
        unit = unit._replace(text=shorten(unit.text, width))
        wide = cells(unit.text) + int(unit.spaced and bool(rows[-1]))
        if used + wide > width and rows[-1]:
            rows.append([])
            used, wide = 0, cells(unit.text)
        rows[-1].append(unit)
        used += wide
    return rows


def _row(row: Sequence[_Unit], margin: str, strongest: float, color: bool) -> list[str]:
    count = len(colour_scale.RAMP if color else colour_scale.SHADES)
    text = shades = margin
    for number, unit in enumerate(row):
        between = " " if unit.spaced and number else ""
        level = int(unit.weight / strongest * (count - 1) + 0.5) if strongest else 0
        text += between + (_coloured(unit, level) if color else isolate(unit.text))
        shades += between + colour_scale.SHADES[min(level, len(colour_scale.SHADES) - 1)] * cells(unit.text)
    shades = " " * len(margin) + shades.removeprefix(margin)
    return [text] if color or not shades.strip() else [text, shades]


def _coloured(unit: _Unit, level: int) -> str:
    if not level:
        return f"{_DIM}{isolate(unit.text)}{_RESET}" if unit.special else isolate(unit.text)
    ink = 16 if level > len(colour_scale.RAMP) // 2 else 231
    return f"\x1b[48;5;{colour_scale.RAMP[level]}m\x1b[38;5;{ink}m{isolate(unit.text)}{_RESET}"
