"""Attention over an image as one web page that needs nothing beside it: step through the words and see where it looked.

`overlay_page.js` paints the heat as `regard.viz.overlay_heat` does, from the same weights, colours and numbers.
"""

import base64
import json
import unicodedata
from collections.abc import Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz.labels import friendly
from regard.viz.overlay import ImageTrace
from regard.viz.overlay_heat import FAINTEST, GREYED, LUMA, OPACITY, STEPS, fitted, heat_colours, pixels_of
from regard.viz.png import png

LONGEST = 800
"""Pixels of the longer side that a page keeps of an image."""
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Nothing is fetched, whatever the words say."""


def image_page(
    trace: ImageTrace, *, layer: int | None = None, head: int | None = None, title: str = "", each: bool = False
) -> str:
    """Write the page, opened at a layer and head or at their mean, with a scale for all words or one for each."""
    style, script = (_text(f"overlay_page.{kind}") for kind in ("css", "js"))
    labels = friendly(trace.words, trace.trace.special)
    name = title or " ".join(labels[place] for place in trace.shown())
    heading = f'<h1 dir="auto">{escape(title)}</h1>\n' if title else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        f"<title>{escape(name)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{heading}{image_part(trace, layer=layer, head=head, each=each)}\n</main>\n"
        f"<script>\n{script}</script>\n</body>\n</html>\n"
    )


def image_part(trace: ImageTrace, *, layer: int | None = None, head: int | None = None, each: bool = False) -> str:
    """Write the part of a page that shows one trace; the page's script makes it move."""
    if not trace.look(layer, head).size:
        raise DisplayError(f"There is nothing to draw: the trace has {len(trace.words)} words.")
    layers, heads = trace.trace.weights.shape[:2]
    image = trace.image if max(trace.image.shape) <= LONGEST else fitted(trace.image, LONGEST)
    height, width = image.shape[:2]
    small = ' class="small"' if max(height, width) < 200 else ""
    labels = friendly(trace.words, trace.trace.special)
    kinds = [' class="mark"' if word in trace.trace.special else "" for word in trace.words]
    words = "\n".join(
        f'<button type="button" dir="auto"{kind}>{escape(label)}</button>'
        for kind, label in zip(kinds, labels, strict=True)
    )
    data = {
        **_weights(trace),
        "grid": trace.grid,
        "places": None if trace.grid else [_short(trace.regions.place(s)) for s in range(len(trace.trace.source))],
        "outlines": _outlines(trace),
        "labels": labels,
        "shown": trace.shown(),
        "probabilities": [round(float(np.exp(value)), 4) for value in trace.trace.log_probs],
        "candidates": [
            [
                [label, round(p, 4)]
                for label, p in zip(friendly([t for t, _ in step]), [p for _, p in step], strict=True)
            ]
            for step in trace.trace.candidates
        ],
        "colours": base64.b64encode(heat_colours()[:, :3].round().astype(np.uint8).tobytes()).decode(),
        "opacity": OPACITY,
        "faintest": FAINTEST,
        "greyed": GREYED,
        "luma": LUMA,
        "steps": STEPS,
        "ground": round(float(pixels_of(image).mean())),
    }
    return _PART.format(
        small=small,
        picture=base64.b64encode(png(image)).decode(),
        width=width,
        height=height,
        ratio=f"{width / height:.6g}",
        words=words,
        direction=_direction(labels),
        layers=_choice("layer", layers, layer),
        heads=_choice("head", heads, head),
        each=" checked" if each else "",
        outlined="" if trace.outlines else " hidden",
        about=escape(trace.caption(layer, head).partition(" · ")[0]),
        opacity=round(OPACITY * 100),
        data=_for_script(data),
    )


_PART = """<section class="overlay">
<figure>
<div class="stage" style="--ratio: {ratio}">
<img{small} width="{width}" height="{height}" alt="The image that the words are about"
src="data:image/png;base64,{picture}">
<canvas class="heat" aria-hidden="true"></canvas>
<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"></svg>
</div>
<figcaption class="words" dir="{direction}" role="group" aria-label="Words: choose one to see where the model looked">
{words}
</figcaption>
</figure>
<p class="told" role="status" aria-live="polite"></p>
<noscript><p>Without scripts only the image and the words are shown.</p></noscript>
<div class="controls">
<button type="button" class="play" aria-pressed="false"><span aria-hidden="true">▶</span> <b>Play</b></button>
<label>Overlay <input type="range" class="opacity" min="0" max="100" value="{opacity}"></label>
{layers}{heads}<label><input type="checkbox" class="each"{each}> A scale for each word</label>
<label{outlined}><input type="checkbox" class="outlined" checked> Outlines</label>
</div>
<div class="key"><span>0</span><canvas class="bar" width="256" height="1" aria-hidden="true"></canvas>
<span class="high"></span> <span class="about">weight over {about}</span></div>
<p class="help"><kbd>←</kbd> <kbd>→</kbd> the words · <kbd>Esc</kbd> the image alone ·
point at the image: which words look there</p>
<script type="application/json">{data}</script>
</section>"""


def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _weights(trace: ImageTrace) -> dict[str, Any]:
    """Pack all weights in two bytes each, as parts of the largest: a page of many heads stays small."""
    weights: NDArray[np.float32] = np.clip(np.nan_to_num(trace.trace.weights, posinf=0.0, neginf=0.0), 0, None)
    peak = float(weights.max(initial=0.0)) or 1.0
    packed = np.asarray(weights / peak * 65_535 + 0.5).astype("<u2")
    return {"shape": weights.shape, "peak": peak, "weights": base64.b64encode(packed.tobytes()).decode()}


def _outlines(trace: ImageTrace) -> list[list[list[float]]]:
    height, width = trace.image.shape[:2]
    return [
        [_short((left / width, top / height, right / width, bottom / height)) for left, top, right, bottom in some]
        for some in trace.outlines
    ]


def _short(box: tuple[float, float, float, float]) -> list[float]:
    return [round(value, 5) for value in box]


def _direction(labels: Sequence[str]) -> str:
    """Say which way the words run: as the first letter of them that has a direction."""
    kinds = (unicodedata.bidirectional(char) for label in labels for char in label)
    return "rtl" if next((kind for kind in kinds if kind in ("L", "R", "AL")), "L") != "L" else "ltr"


def _choice(what: str, count: int, chosen: int | None) -> str:
    """Write a list to choose a layer or head from; where there is one, there is no choice."""
    hidden = " hidden" if count < 2 else ""
    current = -1 if chosen is None else chosen % count
    options = "".join(
        f'<option value="{number}"{" selected" if number == current else ""}>{name}</option>'
        for number, name in enumerate(["mean", *range(count)], start=-1)
    )
    return f'<label{hidden}>{what.title()} <select class="{what}">{options}</select></label>\n'


def _for_script(data: dict[str, Any]) -> str:
    """Write JSON that no text in it can end: neither a tag nor a comment is ever opened."""
    text = json.dumps(data, separators=(",", ":"))  # ASCII: other letters are escaped
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
