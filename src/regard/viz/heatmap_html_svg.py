"""Attention as inline SVG for a web page, drawn without matplotlib in the page's colours.

The page's style sheet styles it: `.look rect` is a weight (its opacity is its share of the largest), `.look text` a
token, `.look .mark` a special token.
"""

from html import escape

from regard.viz import colour_scale
from regard.viz.token_labels import cells, friendly, shorten
from regard.viz.trace import AttentionTrace

CELL = 18
"""Side of a cell, in pixels."""
_LETTER = 7.6
"""Maximum width of a letter."""
_ROOM = 14
"""Letters shown of a token; the cell's tooltip has all."""
_FAINT = 1 / 256


def attention_svg(trace: AttentionTrace, strongest: float | None = None) -> str:
    """Return an `<svg>` element of the mean over layers and heads: source on top, target on the left.

    `strongest` is the weight with full opacity, the same for all pictures of a group.
    """
    look = trace.look()
    top = colour_scale.top(look) if strongest is None else strongest
    source, target = friendly(trace.source, trace.special), friendly(trace.target, trace.special)
    left, above = _room(target) + 6, round(_room(source) * 0.72) + 12
    right = round(_room(source) * 0.72)
    wide, high = len(source) * CELL, len(target) * CELL
    parts = [
        f'<svg class="look" width="{left + wide + right}" height="{above + high + 1}" '
        f'viewBox="0 0 {left + wide + right} {above + high + 1}" role="img" '
        f'aria-label="{escape(_summary(source, target))}">'
    ]
    for column, token in enumerate(source):
        x = left + column * CELL + CELL * 0.62
        parts.append(f'<text{_kind(trace.source[column], trace)} transform="translate({x:g} {above - 5}) rotate(-45)">')
        parts.append(f"{escape(shorten(token, _ROOM))}</text>")
    for row, token in enumerate(target):
        y = above + row * CELL + CELL * 0.7
        parts.append(f'<text{_kind(trace.target[row], trace, "end")} x="{left - 5}" y="{y:g}">')
        parts.append(f"{escape(shorten(token, _ROOM))}</text>")
    for row, weights in enumerate(look):
        for column, weight in enumerate(weights):
            share = min(float(weight) / top, 1.0)
            if share >= _FAINT:
                parts.append(
                    f'<rect x="{left + column * CELL}" y="{above + row * CELL}" width="{CELL}" height="{CELL}" '
                    f'fill-opacity="{share:.2f}"><title>{escape(target[row])} ← {escape(source[column])} '
                    f"{float(weight):.2f}</title></rect>"
                )
    grid = "".join(f"M{left + i * CELL} {above}v{high}" for i in range(len(source) + 1))
    grid += "".join(f"M{left} {above + i * CELL}h{wide}" for i in range(len(target) + 1))
    parts.append(f'<path d="{grid}"/></svg>')
    return "".join(parts)


def _room(labels: tuple[str, ...]) -> int:
    return round(max((min(cells(label), _ROOM) for label in labels), default=0) * _LETTER)


def _kind(token: str, trace: AttentionTrace, *kinds: str) -> str:
    every = [*(["mark"] if token in trace.special else []), *kinds]
    return f' class="{" ".join(every)}"' if every else ""


def _summary(source: tuple[str, ...], target: tuple[str, ...]) -> str:
    return f"Attention of {len(target)} tokens written over {len(source)} tokens read"
