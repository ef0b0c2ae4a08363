"""Word documents (.docx): paragraphs are translated; formatting, pictures, tables, fields and notes stay.

Runs (stretches of text with one format) and links are placed by attention, like the elements of HTML.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

import docx
from docx.opc.part import Part, XmlPart
from docx.oxml import parse_xml
from docx.oxml.ns import qn
from lxml import etree

from regard.errors import DataError
from regard.serve.inline_markup import Element, Paragraph, Unit
from regard.serve.sentence_translation import Rendering
from regard.serve.sentences import has_letters
from regard.serve.text_documents import chosen

MOST_BYTES: Final = 64 << 20
"""Of a document that is unpacked: its file may be a thousand times smaller."""
_PARTS: Final = ("document", "header", "footer", "footnotes", "endnotes")
_PARAGRAPH, _RUN, _TEXT, _FORMAT = (qn(f"w:{name}") for name in ("p", "r", "t", "rPr"))
_GROUPS: Final = frozenset(qn(f"w:{name}") for name in ("hyperlink", "ins", "smartTag"))
"""What may hold runs within a paragraph."""
_INVISIBLE: Final = frozenset(
    qn(f"w:{name}") for name in ("proofErr", "bookmarkStart", "bookmarkEnd", "permStart", "permEnd", "pPr")
)
_APART: Final = frozenset(qn(f"w:{name}") for name in ("p", "fldSimple"))
"""Paragraphs of their own, and what Word computes."""
_SPACE: Final = "{http://www.w3.org/XML/1998/namespace}space"


class WordDocument:
    """A Word document."""

    needs_links = True

    def __init__(self, content: bytes) -> None:
        try:
            _check_size(content)
            self._document = docx.Document(io.BytesIO(content))
            self._trees = dict(_trees(self._document.part.package.iter_parts()))
        except DataError:
            raise
        except Exception:  # whatever a damaged or hostile file makes the libraries raise
            raise DataError("The file is not a Word document (.docx), or it is damaged.") from None
        self._paragraphs = [
            _paragraph(section)
            for tree in self._trees.values()
            for paragraph in tree.iter(_PARAGRAPH)
            for section in _sections(paragraph)
            if has_letters("".join(_text_of(each) for each in section))
        ]

    def text(self) -> str:
        """Return the text of all paragraphs."""
        return "\n".join(paragraph.text for paragraph in self._paragraphs)

    def split(self, language: str, longest: int) -> list[str]:
        """Find the sentences of all paragraphs."""
        for paragraph in self._paragraphs:
            paragraph.split(language, longest)
        return [sentence.text for paragraph in self._paragraphs for sentence in paragraph.sentences]

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> bytes:
        """Return the file with its paragraphs translated."""
        best = {sentence: chosen(n_best, rank) for sentence, n_best in translations.items()}
        for paragraph in self._paragraphs:
            _write(*paragraph.project(best, str))
        for part, tree in self._trees.items():
            if not isinstance(part, XmlPart):
                part._blob = etree.tostring(tree, xml_declaration=True, encoding="UTF-8", standalone=True)
        written = io.BytesIO()
        self._document.save(written)
        return written.getvalue()


def _check_size(content: bytes) -> None:
    with zipfile.ZipFile(io.BytesIO(content)) as packed:
        size = sum(entry.file_size for entry in packed.infolist())
    if size > MOST_BYTES:
        raise DataError(f"The file unpacks to {size / 2**20:,.0f} MB; at most {MOST_BYTES / 2**20:.0f} MB are read.")


def _trees(parts: Iterator[Part]) -> Iterator[tuple[Part, Any]]:
    """Yield the parts of a document that have text, with their XML."""
    for part in parts:
        name = str(part.partname).rpartition("/")[2]
        if name.startswith(_PARTS) and name.endswith(".xml"):
            yield part, part.element if isinstance(part, XmlPart) else parse_xml(part.blob)


def _sections(parent: Any) -> Iterator[list[Any]]:
    """Yield runs and links that stand beside each other, with nothing between them that would have to stay in place.

    What is not only text, such as a tab, a break or a picture, ends a section.
    """
    section: list[Any] = []
    for child in parent:
        if _is_plain(child):
            section.append(child)
        elif child.tag not in _INVISIBLE:
            if section:
                yield section
            section = []
            if child.tag == _RUN:
                yield from ([text] for text in child.iterchildren(_TEXT))
            elif child.tag not in _APART:
                yield from _sections(child)
    if section:
        yield section


def _is_plain(node: Any) -> bool:
    """Return whether an element is a run of text alone, or a link with such runs."""
    if node.tag == _RUN:
        return all(child.tag in (_TEXT, _FORMAT) for child in node) and node.find(_TEXT) is not None
    return node.tag in _GROUPS and len(node) > 0 and all(child.tag == _RUN and _is_plain(child) for child in node)


def _text_of(node: Any) -> str:
    return node.text or "" if node.tag == _TEXT else "".join(text.text or "" for text in node.iter(_TEXT))


def _paragraph(section: Sequence[Any]) -> Paragraph:
    root = Element(0, 0)
    text = ""
    for node in section:
        element = Element(len(text), len(text), node)
        root.children.append(element)
        for run in node if node.tag in _GROUPS else ():
            own = _text_of(run)
            element.children.append(Element(len(text), len(text) + len(own), run))
            text += own
        text += "" if element.children else _text_of(node)
        element.end = len(text)
    root.end = len(text)
    return Paragraph(text, list(text), root)


def _write(units: Sequence[Unit], root: Element) -> None:
    """Write the translation into the runs, and put them in its order."""
    _reorder(root)
    runs = [each for child in root.children for each in (child.children or [child])]
    # What is between two runs belongs to the first of them.
    borders = [0, *(max(run.low, before.high) for before, run in pairwise(runs)), len(units)]
    done = 0
    for run, end in zip(runs, borders[1:], strict=True):
        end = max(end, done)
        _set_text(run.payload, "".join(unit.raw for unit in units[done:end]))
        done = end


def _reorder(element: Element) -> None:
    """Put the XML of an element's children in the order in which they were placed."""
    nodes = [child.payload for child in element.children]
    if len(nodes) > 1:
        parent = nodes[0].getparent()
        ordered = [*parent]
        for place, node in zip(sorted(map(parent.index, nodes)), nodes, strict=True):
            ordered[place] = node
        parent[:] = ordered
    for child in element.children:
        _reorder(child)


def _set_text(node: Any, text: str) -> None:
    """Write a text into a run, or into a text of one."""
    first, *others = [node] if node.tag == _TEXT else node.findall(_TEXT)
    first.text = text
    if text != text.strip():
        first.set(_SPACE, "preserve")
    for other in others:
        other.getparent().remove(other)
