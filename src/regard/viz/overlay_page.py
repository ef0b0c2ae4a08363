"""Attention over an image as a self-contained web page, in which one steps through the words.

`overlay_page.js` draws the heat as `regard.viz.overlay_heat` does, with the same weights, colours and constants.
"""

import base64
from html import escape

import numpy as np

from regard.errors import DisplayError
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_heat import FAINTEST, GREYED, LUMA, OPACITY, STEPS, fitted, heat_colours, pixels_of
from regard.viz.png import png
from regard.viz.token_labels import friendly
from regard.viz.word_stepper import CONTROLS, buttons, choice, data_of, direction, for_script, labels_of, page

LONGEST = 800
"""Maximum size of the image in a page, in pixels of the longer side."""


def image_page(
    trace: ImageTrace, *, layer: int | None = None, head: int | None = None, title: str = "", each: bool = False
) -> str:
    """Return the page, opened at a layer and head or at their mean, with one scale or one per word."""
    labels = friendly(trace.words, trace.trace.special)
    name = " ".join(labels[place] for place in trace.shown())
    return page(image_part(trace, layer=layer, head=head, each=each), "overlay_page", name, title)


def image_part(
    trace: ImageTrace,
    *,
    layer: int | None = None,
    head: int | None = None,
    each: bool = False,
    phrases: bool = False,
) -> str:
    """Return the part of a page that shows one trace; the page's script makes it interactive.

    With `phrases`, the target is phrases, such as names of classes, rather than tokens: their spaces are kept.
    """
    if not trace.look(layer, head).size:
        raise DisplayError(f"There is nothing to draw: the trace has {len(trace.words)} words.")
    layers, heads = trace.trace.weights.shape[:2]
    image = trace.image if max(trace.image.shape) <= LONGEST else fitted(trace.image, LONGEST)
    height, width = image.shape[:2]
    labels = labels_of(trace.trace, phrases)
    small = ' class="small"' if max(height, width) < 200 else ""
    data = {
        **data_of(trace.trace, labels),
        "grid": trace.grid,
        "places": None if trace.grid else [_short(trace.regions.place(s)) for s in range(len(trace.trace.source))],
        "outlines": _outlines(trace),
        "shown": trace.shown(),
        "colours": base64.b64encode(heat_colours()[:, :3].round().astype(np.uint8).tobytes()).decode(),
        "opacity": OPACITY,
        "faintest": FAINTEST,
        "greyed": GREYED,
        "luma": LUMA,
        "steps": STEPS,
        "ground": round(float(pixels_of(image).mean())),
    }
    controls = CONTROLS.format(
        more=_OPACITY.format(opacity=round(OPACITY * 100)),
        layers=choice("layer", layers, layer),
        heads=choice("head", heads, head),
        each=" checked" if each else "",
        after=_OUTLINES.format(outlined="" if trace.outlines else " hidden"),
        about=escape(trace.caption(layer, head).partition(" · ")[0]),
    )
    return _PART.format(
        small=small,
        picture=base64.b64encode(png(image)).decode(),
        width=width,
        height=height,
        ratio=f"{width / height:.6g}",
        words=buttons(trace.trace, labels),
        direction=direction(labels),
        controls=controls,
        data=for_script(data),
    )


_OPACITY = """<label>Overlay <input type="range" class="opacity" min="0" max="100" value="{opacity}"></label>
"""
_OUTLINES = """
<label{outlined}><input type="checkbox" class="outlined" checked> Outlines</label>"""
_PART = """<section class="stepper overlay">
<figure>
<div class="stage" style="--ratio: {ratio}">
<img{small} width="{width}" height="{height}" alt="The image that the words are about"
src="data:image/png;base64,{picture}">
<canvas class="heat" aria-hidden="true"></canvas>
<svg viewBox="0 0 1 1" preserveAspectRatio="none" aria-hidden="true"></svg>
</div>
<figcaption class="words" dir="{direction}" role="group" aria-label="Words: choose one to see its attention">
{words}
</figcaption>
</figure>
<p class="told" role="status" aria-live="polite"></p>
<noscript><p>Without scripts only the image and the words are shown.</p></noscript>
{controls}
<p class="help"><kbd>←</kbd> <kbd>→</kbd> step through the words · <kbd>Esc</kbd> image only ·
point at the image to see which words attend there</p>
<script type="application/json">{data}</script>
</section>"""


def _outlines(trace: ImageTrace) -> list[list[list[float]]]:
    height, width = trace.image.shape[:2]
    return [
        [_short((left / width, top / height, right / width, bottom / height)) for left, top, right, bottom in some]
        for some in trace.outlines
    ]


def _short(box: tuple[float, float, float, float]) -> list[float]:
    return [round(value, 5) for value in box]
