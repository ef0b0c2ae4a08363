"""A report as a list of blocks, which become Markdown, a web page or lines in a terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from regard.viz.trace import AttentionTrace


@dataclass(frozen=True)
class Code:
    """A piece of a paragraph that is a name or a command."""

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
    """Whether it is small print."""


@dataclass(frozen=True)
class Cell:
    """One cell of a table."""

    text: str
    value: float | None = None
    """What to sort by; None to sort by the text."""
    best: bool = False


@dataclass(frozen=True)
class Column:
    """One column of a table."""

    title: str
    about: str = ""
    """What it is, in a sentence."""
    numbers: bool = True
    """Whether it is set to the right."""


@dataclass(frozen=True)
class Table:
    """Rows of cells; the first column names the row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Picture:
    """A plot: `images/NAME.png`, and `images/NAME.svg` for the page."""

    name: str
    about: str


@dataclass(frozen=True)
class Shown:
    """What one variant made of a sentence."""

    variant: str
    text: str
    trace: AttentionTrace | None
    about: str = ""


@dataclass(frozen=True)
class Sentence:
    """One sentence, and side by side what every variant made of it; `images/NAME.png` where `picture` is set."""

    name: str
    source: str
    shown: tuple[Shown, ...]
    picture: bool
    reference: str = ""
    """What would be right, where that is known."""


@dataclass(frozen=True)
class Strip:
    """What one variant made of a picture or a text; `images/FILE` has the attention over it, where there is one."""

    variant: str
    text: str
    file: str
    about: str = ""


@dataclass(frozen=True)
class Overlaid:
    """One picture or text, and below each other what every variant made of it."""

    source: str
    strips: tuple[Strip, ...]
    reference: str = ""
    """What would be right, where that is known."""


@dataclass(frozen=True)
class Listing:
    """Lines to be left as they are."""

    text: str


Block = Heading | Paragraph | Table | Picture | Sentence | Overlaid | Listing


@dataclass
class Document:
    """A title and what stands under it."""

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
    """Write a table for a terminal, with numbers to the right."""
    cells = [[column.title for column in table.columns], *([cell.text for cell in row] for row in table.rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(table.columns))]
    lines = [_line(row, widths, [column.numbers for column in table.columns]) for row in cells]
    return "\n".join(lines)


def _line(texts: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    placed = [text.rjust(w) if r else text.ljust(w) for text, w, r in zip(texts, widths, right, strict=True)]
    return "  ".join(placed).rstrip()
