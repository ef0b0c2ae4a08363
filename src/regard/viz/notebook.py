"""Traces as HTML for notebooks: each in a frame of its own, so that several never clash and nothing is fetched."""

from collections.abc import Sequence, Set
from html import escape

from regard.viz.token_labels import friendly
from regard.viz.trace import AttentionTrace

CELL, AROUND = 26, 420
"""Height of a row of the matrix, and of everything else, in pixels."""
LEAST, MOST = 480, 960
"""Limits of a frame's height; a taller page scrolls."""

_FRAME = (
    '<iframe sandbox="allow-scripts" title="{title}" '
    'style="width: 100%; height: {height}px; border: 0" srcdoc="{page}"></iframe>'
)


def notebook_html(trace: AttentionTrace, title: str = "") -> str:
    """Return the trace's page in a frame; without attention, its tokens."""
    from regard.viz.trace_page import text_page

    if not trace.target or not trace.source or not trace.weights.shape[0]:
        shown = " ".join(friendly(trace.target, trace.special)) or title
        return f'<p dir="auto">{escape(shown)} <small>(no attention)</small></p>'
    height = min(MOST, max(LEAST, AROUND + CELL * len(trace.target)))
    page = text_page(trace, title=title)
    return _FRAME.format(title=escape(title or "Attention"), height=height, page=escape(page))


def changes_html(changes: Sequence[tuple[str, Sequence[str], Sequence[str]]], special: Set[str]) -> str:
    """Return a diff of tokens; each change has a kind, old tokens and new tokens."""

    def joined(tokens: Sequence[str]) -> str:
        return escape(" ".join(friendly(tokens, special)))

    parts = []
    for kind, old, new in changes:
        if kind == "same":
            parts.append(joined(new))
            continue
        if old:
            parts.append(f"<del>{joined(old)}</del>")
        if new:
            parts.append(f"<ins>{joined(new)}</ins>")
    return f'<p dir="auto">{" ".join(parts)}</p>'
