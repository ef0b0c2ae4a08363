"""Render a report as Markdown."""

import re

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

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#$&])")


def to_markdown(document: Document, images: str = "images") -> str:
    """Render a document; image links point to the folder `images` next to it."""
    blocks = [_block(block, images) for block in (Heading(document.title, 1), *document.blocks)]
    return "\n\n".join(blocks) + "\n"


def _block(block: Block, images: str) -> str:
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escape(block.text)}"
    if isinstance(block, Paragraph):
        return "".join(_part(part) for part in block.parts)
    if isinstance(block, Table):
        return _table(block)
    if isinstance(block, Picture):
        return f"![{escape(block.about)}]({images}/{block.name}.png)"
    if isinstance(block, Listing):
        return f"```text\n{block.text}\n```"
    return _overlaid(block, images) if isinstance(block, Overlaid) else _sentence(block, images)


def _part(part: str | Code) -> str:
    return escape(part) if isinstance(part, str) else code(part.text)


def _table(table: Table) -> str:
    lines = [
        "| " + " | ".join(escape(column.title) for column in table.columns) + " |",
        "|" + "|".join("---:" if column.numbers else "---" for column in table.columns) + "|",
        *("| " + " | ".join(_cell(cell) for cell in row) + " |" for row in table.rows),
    ]
    return "\n".join(lines)


def _cell(cell: Cell) -> str:
    text = escape(cell.text.strip())
    return f"**{text}**" if cell.best else text


def _sentence(sentence: ReportSentence, images: str) -> str:
    lines = [f"> {escape(sentence.source)}", ""]
    lines += [f"- reference: {escape(sentence.reference)}"] if sentence.reference else []
    lines += [f"- {escape(one.variant)}: {escape(one.text) or '(nothing)'}" for one in sentence.shown]
    if sentence.picture:
        lines += ["", f"![Attention of each variant]({images}/{sentence.name}.png)"]
    return "\n".join(lines)


def _overlaid(block: Overlaid, images: str) -> str:
    lines = [f"> {escape(block.source)}", ""]
    lines += [f"- reference: {escape(block.reference)}"] if block.reference else []
    lines += [f"- {escape(one.variant)}: {escape(one.text) or '(nothing)'}" for one in block.strips]
    for one in block.strips:
        if one.file:
            lines += ["", f"![Attention of {escape(one.variant)}]({images}/{one.file})"]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Escape Markdown's special characters and put the text on one line."""
    return _SPECIAL.sub(r"\\\1", re.sub(r"\s*[\r\n]\s*", " ", text))


def code(text: str) -> str:
    """Format a text as inline code, with a fence longer than any run of backticks in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    room = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{room}{text}{room}{fence}"
