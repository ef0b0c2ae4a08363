"""Attention between texts as a self-contained web page, in which one steps through the output."""

from html import escape

from regard.errors import DisplayError
from regard.viz.token_labels import friendly
from regard.viz.trace import AttentionTrace
from regard.viz.word_stepper import CONTROLS, buttons, choice, data_of, direction, for_script, kind_of, page


def text_page(trace: AttentionTrace, *, layer: int | None = None, head: int | None = None, title: str = "") -> str:
    """Return the page, opened at a layer and head or at their mean."""
    trace.look(layer, head)  # raises if there is no attention
    name = " ".join(label for token, label in _labelled(trace) if token not in trace.special)
    return page(text_part(trace, layer=layer, head=head), "trace_page", name, title)


def text_part(trace: AttentionTrace, *, layer: int | None = None, head: int | None = None) -> str:
    """Return the part of a page that shows one trace; the page's script makes it interactive.

    Without attention there is no matrix, only the output and the candidates of each step.
    """
    if not trace.target:
        raise DisplayError("There is nothing to show: the output is empty.")
    layers, heads = trace.weights.shape[:2]
    source, target = friendly(trace.source, trace.special), friendly(trace.target, trace.special)
    looked = bool(layers and trace.source)
    controls = CONTROLS.format(
        more="",
        layers=choice("layer", layers, layer),
        heads=choice("head", heads, head),
        each="",
        after="",
        about=f"{len(trace.source)} tokens",
    )
    tokens = "\n".join(
        f'<span dir="auto"{kind_of(token, trace)}>{escape(label)}</span>'
        for token, label in zip(trace.source, source, strict=True)
    )
    return _PART.format(
        kind="" if looked else " blind",
        read=_READ.format(direction=direction(source), tokens=tokens) if trace.source else "",
        direction=direction(target),
        words=buttons(trace, target),
        rows=len(trace.target),
        columns=len(trace.source),
        across=_names(source, "column"),
        down=_names(target, "row"),
        controls=controls,
        data=for_script({**data_of(trace, target), "source": source, "shown": [*range(len(target))]}),
    )


_READ = """<p class="side">Source</p>
<div class="read" dir="{direction}" role="group" aria-label="Source tokens">
{tokens}
</div>"""
_PART = """<section class="stepper trace{kind}">
{read}
<p class="side">Output</p>
<div class="words" dir="{direction}" role="group" aria-label="Words: choose one to see its attention">
{words}
</div>
<p class="told" role="status" aria-live="polite"></p>
<noscript><p>Without scripts only the words are shown.</p></noscript>
<div class="beside">
<div class="thought" hidden><p class="side">Candidates</p><ol></ol></div>
<div class="matrix" style="--rows: {rows}; --columns: {columns}" aria-hidden="true">
{across}{down}<canvas width="{columns}" height="{rows}"></canvas><i class="here"></i>
</div>
</div>
{controls}
<p class="help"><kbd>←</kbd> <kbd>→</kbd> step through the words · point at the source to see which words attend
there</p>
<script type="application/json">{data}</script>
</section>"""


def _labelled(trace: AttentionTrace) -> list[tuple[str, str]]:
    return list(zip(trace.target, friendly(trace.target, trace.special), strict=True))


def _names(labels: tuple[str, ...], kind: str) -> str:
    return "".join(
        f'<b class="{kind}" style="--at: {place}"><span dir="auto">{escape(label)}</span></b>\n'
        for place, label in enumerate(labels)
    )
