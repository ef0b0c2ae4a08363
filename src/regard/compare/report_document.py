"""A report as a list of blocks, to be rendered as Markdown, a web page or terminal output."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.viz.trace import AttentionTrace


@dataclass(frozen=True)
class Code:
    """Inline code in a paragraph: a name or a command."""

    text: str


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text."""

    parts: tuple[str | Code, ...]
    note: bool = False
    """Whether to set it in small print."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    value: float | None = None
    """The sort key; None to sort by the text."""
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    about: str = ""
    """An explanation in one sentence."""
    numbers: bool = True
    """Whether to align it right."""


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column names the row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A plot: `images/NAME.png` for Markdown, `images/NAME.svg` for the page."""

    name: str
    about: str


@dataclass(frozen=True)
class Shown:
    """One variant's output for a sentence."""

    variant: str
    text: str
    trace: AttentionTrace | None
    about: str = ""


@dataclass(frozen=True)
class ReportSentence:
    """One sentence with the outputs of all variants side by side; `images/NAME.png` exists if `picture` is set."""

    name: str
    source: str
    shown: tuple[Shown, ...]
    picture: bool
    reference: str = ""
    """The reference, if known."""


@dataclass(frozen=True)
class Strip:
    """One variant's output for a picture or a text; `images/FILE` has the attention over it, unless it is empty."""

    variant: str
    text: str
    file: str
    about: str = ""


@dataclass(frozen=True)
class Overlaid:
    """One picture or text with the outputs of all variants, one below the other."""

    source: str
    strips: tuple[Strip, ...]
    reference: str = ""
    """The reference, if known."""


@dataclass(frozen=True)
class Listing:
    """Preformatted lines."""

    text: str


Block = Heading | Paragraph | Table | Picture | ReportSentence | Overlaid | Listing


@dataclass
class Document:
    """A title and its blocks."""

    title: str
    blocks: list[Block] = field(default_factory=list)

    def heading(self, text: str, level: int = 2) -> None:
        """Add a heading."""
        self.blocks.append(Heading(text, level))

    def say(self, *parts: str | Code, note: bool = False) -> None:
        """Add a paragraph."""
        self.blocks.append(Paragraph(parts, note))

    def add(self, *blocks: Block) -> None:
        """Add blocks."""
        self.blocks.extend(blocks)


def plain(table: Table) -> str:
    """Format a table for a terminal, with numbers aligned right."""
    cells = [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [_line(row, widths, [column.numbers for column in table.columns]) for row in cells]
    return "\n".join(lines)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = [text.rjust(w) if r else text.ljust(w) for text, w, r in zip(texts, widths, right, strict=True)]
    return "  ".join(placed).rstrip()
