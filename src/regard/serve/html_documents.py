"""HTML documents: paragraphs are translated; tags, attributes, comments, scripts and entities stay."""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from html.parser import HTMLParser
from typing import Final, Literal, NamedTuple

from regard.serve.inline_markup import Element, Paragraph, Unit
from regard.serve.sentence_translation import Rendering
from regard.serve.sentences import has_letters
from regard.serve.text_documents import chosen

INLINE: Final = frozenset(
    {
        *("a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font", "i", "img"),
        *("ins", "label", "mark", "nobr", "q", "rb", "rp", "rt", "ruby", "s", "small", "span", "strike", "strong"),
        *("sub", "sup", "time", "tt", "u", "wbr"),
    }
)
"""Elements within a sentence; all others end it."""
KEPT_INLINE: Final = frozenset(["code", "kbd", "samp", "script", "style", "svg", "math", "noscript", "var"])
KEPT_BLOCKS: Final = frozenset(["pre", "template", "textarea"])
"""Elements that are not translated."""
_VOID: Final = frozenset(
    {
        *("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track"),
        "wbr",
    }
)
_DEEPEST: Final = 100
"""Inline elements within each other; tags of deeper ones are placed by themselves."""
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_UNFINISHED: Final = re.compile(r"<[A-Za-z/!?]")
"""How markup begins; it is parsed as text where it does not end."""
_TEXT: Final = re.compile(rf"{_ENTITY.pattern}|\r\n|.", re.DOTALL)
_ESCAPED: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", "\xa0": "&nbsp;"})

Kind = Literal["text", "open", "close", "alone", "kept"]


class Token(NamedTuple):
    """A tag, a text, or something else of a document, with where it begins."""

    kind: Kind
    start: int
    name: str = ""
    is_kept: bool = False
    """Whether what is in the element is not to be translated."""


class Tag(NamedTuple):
    """What an element of a paragraph is written as; something that stands by itself has no end."""

    opening: str
    closing: str = ""
    is_line_break: bool = False
    is_spaced: tuple[bool, bool] = (False, False)
    """Whether there was white space before and after something that is kept."""


class HtmlDocument:
    """An HTML document or a part of one. With `lines`, line breaks are kept and put where they belong."""

    needs_links = True

    def __init__(self, source: str, lines: bool = False) -> None:
        self._parts: list[str | Paragraph] = list(_paragraphs(source, lines))

    def text(self) -> str:
        """Return the text of all paragraphs."""
        return "\n".join(part.text for part in self._parts if isinstance(part, Paragraph))

    def split(self, language: str, longest: int) -> list[str]:
        """Find the sentences of all paragraphs."""
        found: list[str] = []
        for part in self._parts:
            if isinstance(part, Paragraph):
                part.split(language, longest)
                found += [sentence.text for sentence in part.sentences]
        return found

    def join(self, translations: Mapping[str, Sequence[Rendering]], rank: int = 0) -> str:
        """Return the document with its paragraphs translated."""
        best = {sentence: chosen(n_best, rank) for sentence, n_best in translations.items()}
        return "".join(part if isinstance(part, str) else _written(part, best) for part in self._parts)


def _written(paragraph: Paragraph, translations: Mapping[str, Rendering]) -> str:
    units, root = paragraph.project(translations, escape)
    writer = _Writer(units)
    writer.write(root)
    return "".join(writer.written)


class _Writer:
    """Writes units with their elements. Something kept has white space around it where it had some in the source."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._units = units
        self.written: list[str] = []
        self._after_space, self._wants_space, self._after_break = True, False, False

    def write(self, element: Element) -> None:
        tag, done = element.payload or Tag(""), element.low
        if tag.is_spaced[0] and not self._after_space:
            self._add(" ", is_space=True)
        self.written.append(tag.opening)
        for child in element.children:
            self._write(self._units[done : child.low])
            self.write(child)
            done = max(done, child.high)
        self._write(self._units[done : element.high])
        self.written.append(tag.closing)
        self._wants_space |= tag.is_spaced[1]
        self._after_break |= tag.is_line_break

    def _write(self, units: Sequence[Unit]) -> None:
        for unit in units:
            if self._wants_space and not unit.is_space:
                self._add(" ", is_space=True)
            if not (self._after_break and unit.is_space and unit.source is None):
                self._add(unit.raw, unit.is_space)
            self._after_break = False

    def _add(self, raw: str, is_space: bool) -> None:
        self.written.append(raw)
        self._after_space, self._wants_space = is_space, False


def escape(text: str) -> str:
    """Write a text as HTML."""
    return text.translate(_ESCAPED)


class _Tokens(HTMLParser):
    """Where tags, texts and the rest begin."""

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=False)
        self.found: list[Token] = []
        self._source = source
        self._lines = [0, *(match.end() for match in re.finditer("\n", source))]
        try:
            self.feed(source)
            self.close()
        except AssertionError:  # the parser's, of declarations such as "<![<"
            self._add("open", "<", is_kept=True)  # to the end of the document

    def _add(self, kind: Kind, name: str = "", is_kept: bool = False) -> None:
        line, column = self.getpos()
        self.found.append(Token(kind, self._lines[line - 1] + column, name, is_kept))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        kept = tag in KEPT_INLINE | KEPT_BLOCKS or _is_marked(attrs)
        self._add("alone" if tag in _VOID else "open", tag, kept and tag not in _VOID)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("alone", tag)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")
        start = self.found[-1].start
        if found := _UNFINISHED.search(self._source, start, start + len(data) + 1):
            self.found.append(Token("open", found.start(), "<", is_kept=True))  # to the end of the document

    def handle_entityref(self, name: str) -> None:
        self._add("text")

    def handle_charref(self, name: str) -> None:
        self._add("text")

    def handle_comment(self, data: str) -> None:
        self._add("alone", "span")

    def handle_decl(self, decl: str) -> None:
        self._add("kept")

    def handle_pi(self, data: str) -> None:
        self._add("alone", "span")

    def unknown_decl(self, data: str) -> None:
        self._add("kept")


def _is_marked(attributes: Sequence[tuple[str, str | None]]) -> bool:
    """Return whether an element is marked as not to be translated."""
    own = dict(attributes)
    return (own.get("translate") or "").lower() == "no" or "notranslate" in (own.get("class") or "").split()


def _tokens(source: str) -> Iterator[tuple[Token, str]]:
    """Yield what a document consists of with its text; an element that is kept is one token."""
    # What nothing closes is kept. It is not given to the parser, which would try again at every "<" of it.
    unfinished = _UNFINISHED.search(source, source.rfind(">") + 1)
    whole = unfinished.start() if unfinished else len(source)
    found = _Tokens(source[:whole]).found
    if unfinished:
        found.append(Token("kept", whole))
    if not found or found[0].start:
        found.insert(0, Token("kept", 0))
    ends = [*(token.start for token in found[1:]), len(source)]
    held: Token | None = None
    depth = 0
    for token, end in zip(found, ends, strict=True):
        if held is None and token.is_kept:
            held, depth = token, 0
        if held is None:
            yield token, source[token.start : end]
        elif token.name == held.name:
            depth += {"open": 1, "close": -1}.get(token.kind, 0)
            if depth == 0:
                yield held._replace(kind="alone"), source[held.start : end]
                held = None
    if held is not None:
        yield held._replace(kind="kept"), source[held.start :]  # nothing closes it: all that follows is in it


def _paragraphs(source: str, lines: bool) -> Iterator[str | Paragraph]:
    """Yield paragraphs, and as they are written the parts of a document between them."""
    inline: list[tuple[Token, str]] = []
    for token, text in _tokens(source):
        is_inline = token.name in INLINE or (token.is_kept and token.name in KEPT_INLINE)
        if token.kind == "text" or (is_inline and token.kind != "kept"):
            inline.append((token, text))
        else:
            yield from _paragraph(inline, lines)
            inline = []
            yield text
    yield from _paragraph(inline, lines)


def _paragraph(tokens: Sequence[tuple[Token, str]], lines: bool) -> Iterator[str | Paragraph]:
    if not any(token.kind == "text" and has_letters(text) for token, text in tokens):
        yield from (text for _, text in tokens)
        return
    plain: list[str] = []
    raw: list[str] = []
    root = Element(0, 0)
    kept: list[Element] = []
    opened: list[tuple[str, Element]] = [("", root)]
    for token, text in tokens:
        if token.kind == "text":
            _read(text, plain, raw, opened[-1][1] if lines else None)
        elif token.kind == "open" and len(opened) < _DEEPEST:
            opened.append((token.name, Element(len(plain), -1, Tag(text))))
            opened[-2][1].children.append(opened[-1][1])
        elif token.kind == "close" and token.name in (name for name, _ in opened[1:]):
            while True:
                name, element = opened.pop()
                if name == token.name:
                    break
                _alone(element, opened[-1][1])
            element.end, element.payload = len(plain), Tag(element.payload.opening, text)
        else:
            element = Element(len(plain), len(plain), Tag(text))
            opened[-1][1].children.append(element)
            kept += [element] if token.is_kept else []
    while len(opened) > 1:
        _alone(opened.pop()[1], opened[-1][1])
    root.end = len(plain)
    for element in kept:
        before, after = plain[max(0, element.start - 1) : element.start], plain[element.start : element.start + 1]
        spaced = tuple("".join(beside).isspace() for beside in (before, after))
        element.payload = element.payload._replace(is_spaced=spaced)
    yield Paragraph("".join(plain), raw, root)


def _alone(element: Element, parent: Element) -> None:
    """Let a tag that nothing closes stand by itself: what is in it is in the element around it."""
    element.end = element.start
    parent.children.extend(element.children)
    element.children = []


def _read(text: str, plain: list[str], raw: list[str], line_breaks_in: Element | None) -> None:
    """Add the characters of a text, and what they are written as."""
    for match in _TEXT.finditer(text):
        written = match.group()
        meant = html.unescape(written) if _ENTITY.fullmatch(written) else written
        if line_breaks_in is not None and written in ("\n", "\r", "\r\n"):
            # The element is empty and before its own space, which is written as nothing.
            line_breaks_in.children.append(Element(len(plain), len(plain), Tag(written, is_line_break=True)))
            meant, written = " ", ""
        for place, character in enumerate(meant or written):
            plain.append(character)
            raw.append((written if place == 0 else "") if meant else character)
