"""Render a report as one self-contained web page, with pictures, style and script inlined."""

import base64
import re
from html import escape
from importlib.resources import files
from pathlib import Path

from regard.compare.report_document import (
    Block,
    Cell,
    Code,
    Document,
    Heading,
    Listing,
    Overlaid,
    Paragraph,
    Picture,
    ReportSentence,
    Table,
)
from regard.viz import colour_scale
from regard.viz.figure_style import FAINT, INK, LINES
from regard.viz.heatmap_html_svg import attention_svg
from regard.viz.metric_curves import COLOURS

_PAINT = {INK: "--ink", FAINT: "--faint", LINES: "--lines", "#ffffff": "--paper"} | {
    colour: f"--c{number}" for number, colour in enumerate(COLOURS)
}
"""Colours of the plots and the page's CSS variables for them, which differ in dark mode."""
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def to_html(document: Document, images: Path) -> str:
    """Render a document, with pictures from the folder `images`."""
    style, script = (
        files(__package__).joinpath(name).read_text(encoding="utf-8") for name in ("report_page.css", "report_page.js")
    )
    blocks = (Heading(document.title, 1), *document.blocks)
    body = "\n".join(_block(block, images, number) for number, block in enumerate(blocks))
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(document.title)}</title>\n<style>\n{style}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def _block(block: Block, images: Path, number: int) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{escape(block.text)}</h{block.level}>"
    if isinstance(block, Paragraph):
        kind = ' class="note"' if block.note else ""
        return f"<p{kind}>{''.join(_part(part) for part in block.parts)}</p>"
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        drawn = inline((images / f"{block.name}.svg").read_text(encoding="utf-8"), f"picture{number}-")
        return f'<figure class="plot">{drawn}<figcaption>{escape(block.about)}</figcaption></figure>'
    if isinstance(block, Listing):
        return f"<pre>{escape(block.text)}</pre>"
    return _overlaid(block, images) if isinstance(block, Overlaid) else _sentence(block)


def _part(part: str | Code) -> str:
    return escape(part) if isinstance(part, str) else f"<code>{escape(part.text)}</code>"


def _table(table: Table) -> str:
    heads = "".join(
        f"<th{_number(column.numbers)}{f' title={chr(34)}{escape(column.about)}{chr(34)}' if column.about else ''}>"
        f"{escape(column.title)}</th>"
        for column in table.columns
    )
    rows = "\n".join(
        "<tr>" + "".join(_cell(cell, column.numbers) for cell, column in zip(row, table.columns, strict=True)) + "</tr>"
        for row in table.rows
    )
    return f'<div class="scroll"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>'


def _cell(cell: Cell, numbers: bool) -> str:
    kinds = [*(["number"] if numbers else []), *(["best"] if cell.best else [])]
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    value = "" if cell.value is None else f' data-value="{cell.value!r}"'
    # A figure space takes the width of the significance mark that other cells of the column have.
    return (
        f"<td{kind}{value}>{escape(cell.text.replace(' ', chr(0x2007)) if cell.text.endswith(' ') else cell.text)}</td>"
    )


def _number(numbers: bool) -> str:
    return ' class="number"' if numbers else ""


def _sentence(sentence: ReportSentence) -> str:
    looks = [one.trace.look() for one in sentence.shown if one.trace is not None and one.trace.weights.size]
    strongest = max((colour_scale.top(look) for look in looks), default=1.0)
    shown = []
    for one in sentence.shown:
        drawn = attention_svg(one.trace, strongest) if one.trace is not None and one.trace.weights.size else ""
        about = " · ".join(part for part in (one.about, "" if drawn else "no attention") if part)
        shown.append(
            f'<div class="shown"><b>{escape(one.variant)}</b><p class="text">{escape(one.text) or "(nothing)"}</p>'
            f'{drawn}<p class="about">{escape(about)}</p></div>'
        )
    key = f'<p class="scale">Full colour: a weight of {strongest:.1f}.</p>' if looks else ""
    beside = f'<div class="beside">{"".join(shown)}</div>'
    right = f'<br><span class="right">{escape(sentence.reference)}</span>' if sentence.reference else ""
    return f'<div class="sentence"><p>{escape(sentence.source)}{right}</p>{beside}{key}</div>'


def _overlaid(block: Overlaid, images: Path) -> str:
    shown = []
    for one in block.strips:
        drawn = ""
        if one.file:
            content = base64.b64encode((images / one.file).read_bytes()).decode()
            kind = "svg+xml" if one.file.endswith(".svg") else "png"
            drawn = f'<img alt="Attention of {escape(one.variant)}" src="data:image/{kind};base64,{content}">'
        about = " · ".join(part for part in (one.about, "" if drawn else "nothing to show") if part)
        shown.append(
            f'<div class="shown"><b>{escape(one.variant)}</b><p class="text">{escape(one.text) or "(nothing)"}</p>'
            f'{drawn}<p class="about">{escape(about)}</p></div>'
        )
    right = f'<br><span class="right">{escape(block.reference)}</span>' if block.reference else ""
    beside = f'<div class="beside">{"".join(shown)}</div>'
    return f'<div class="sentence"><p>{escape(block.source)}{right}</p>{beside}</div>'


def inline(svg: str, prefix: str) -> str:
    """Prepare an SVG file for inlining: drop its header, metadata and namespaces, and use the page's colours.

    Ids get a prefix, so that those of several pictures do not clash.
    """
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\sxmlns(:\w+)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = _ID.sub(lambda found: found[0] + prefix, svg)
    return re.sub(r"#[0-9a-f]{6}\b", lambda found: _paint(found[0]), svg).strip()


def _paint(colour: str) -> str:
    return f"var({_PAINT[colour]})" if colour in _PAINT else colour
