"""What the interactive pages share: packed weights, menus for layer and head, and the page itself."""

import base64
import json
import unicodedata
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.viz.token_labels import friendly, visible
from regard.viz.trace import AttentionTrace

_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Nothing is fetched, whatever the words contain."""

CONTROLS = """<div class="controls">
<button type="button" class="play" aria-pressed="false"><span aria-hidden="true">▶</span> <b>Play</b></button>
{more}{layers}{heads}<label><input type="checkbox" class="each"{each}> Scale each word separately</label>{after}
</div>
<div class="key"><span>0</span><canvas class="bar" width="256" height="1" aria-hidden="true"></canvas>
<span class="high"></span> <span class="about">weight over {about}</span></div>"""


def page(part: str, kind: str, name: str, title: str = "") -> str:
    """Return a self-contained page around a part; `kind` names the part's style and script."""
    style, script = (text(f"word_stepper.{end}") + text(f"{kind}.{end}") for end in ("css", "js"))
    heading = f'<h1 dir="auto">{escape(title)}</h1>\n' if title else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(title or name)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{heading}{part}\n</main>\n"
        f"<script>\n{script}showAll(document);\n</script>\n</body>\n</html>\n"
    )


def text(name: str) -> str:
    """Read a style or script from this folder."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def labels_of(trace: AttentionTrace, phrases: bool = False) -> tuple[str, ...]:
    """Return the labels of the target words; those of phrases, such as names of classes, keep their spaces."""
    if phrases:
        return tuple(" ".join(map(visible, phrase.split())) or visible(phrase) for phrase in trace.target)
    return friendly(trace.target, trace.special)


def data_of(trace: AttentionTrace, labels: Sequence[str]) -> dict[str, Any]:
    """Return what the script needs from any trace."""
    candidates = [token for step in trace.candidates for token, _ in step]
    # Together with the target: labels depend on whether any token starts with the word marker.
    names = iter(friendly([*trace.target, *candidates], trace.special)[len(trace.target) :])
    return {
        **_weights(trace),
        "labels": labels,
        "probabilities": [round(float(np.exp(value)), 4) for value in trace.log_probs],
        "candidates": [[[next(names), round(p, 4)] for _, p in step] for step in trace.candidates],
    }


def _weights(trace: AttentionTrace) -> dict[str, Any]:
    """Pack all weights in two bytes each, relative to the largest, to keep pages with many heads small."""
    weights: NDArray[np.float32] = np.clip(np.nan_to_num(trace.weights, posinf=0.0, neginf=0.0), 0, None)
    peak = float(weights.max(initial=0.0)) or 1.0
    packed = np.asarray(weights / peak * 65_535 + 0.5).astype("<u2")
    return {"shape": weights.shape, "peak": peak, "weights": base64.b64encode(packed.tobytes()).decode()}


def buttons(trace: AttentionTrace, labels: Sequence[str]) -> str:
    """Return a button for each target token."""
    return "\n".join(
        f'<button type="button" dir="auto"{kind_of(token, trace)}>{escape(label)}</button>'
        for token, label in zip(trace.target, labels, strict=True)
    )


def kind_of(token: str, trace: AttentionTrace) -> str:
    """Return the class attribute of special tokens."""
    return ' class="mark"' if token in trace.special else ""


def direction(labels: Sequence[str]) -> str:
    """Return the writing direction: that of the first letter that has one."""
    kinds = (unicodedata.bidirectional(char) for label in labels for char in label)
    return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


def choice(what: str, count: int, chosen: int | None) -> str:
    """Return a menu for the layer or head, hidden if there is only one."""
    hidden = " hidden" if count < 2 else ""
    current = -1 if chosen is None else chosen % count
    options = "".join(
        f'<option value="{number}"{" selected" if number == current else ""}>{name}</option>'
        for number, name in enumerate(["mean", *range(count)], start=-1)
    )
    return f'<label{hidden}>{what.title()} <select class="{what}">{options}</select></label>\n'


def for_script(data: dict[str, Any]) -> str:
    """Return JSON that is safe within a script element: no text in it can open a tag or a comment."""
    written = json.dumps(data, separators=(",", ":"))  # ASCII: other letters are escaped
    return written.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
