"""Find the required terms of a source line: parts to keep unchanged, and terms of a glossary."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from regard.decoding.terminology.term_matching import class_of
from regard.errors import ConfigError


class Term(NamedTuple):
    """A text that a translation must contain."""

    text: str
    left: str
    """Class of characters not allowed right before it (`regard.decoding.terminology.term_matching`)."""
    right: str
    apart: bool
    """Whether the source term is at the start of the source, or after a space."""
    place: int
    """Start of the source term."""


class _Span(NamedTuple):
    """A source span that requires a term; of two that overlap, the one that sorts first counts."""

    shorter: int
    """Minus its length."""
    looked_up: bool
    """Whether it is from the glossary: spans to keep unchanged come first."""
    start: int
    text: str

    @property
    def end(self) -> int:
        return self.start - self.shorter


class Terms:
    """Finds terms in source lines.

    Every match of the regular expression `keep` must occur unchanged, and for every term of the glossary its
    translation. A glossary term matches a whole word, as written or with its first letter in upper case. Of two that
    overlap, the longer one counts.
    """

    def __init__(self, keep: str = "", glossary: Mapping[str, str] | None = None) -> None:
        self.keep = compile_keep(keep)
        self._glossary: dict[str, str] = {}
        for source, target in (glossary or {}).items():
            if not source.strip() or not target.strip():
                raise ConfigError(f"A term of the glossary is empty: {source!r} is translated {target!r}.")
            self._glossary[source.strip()] = target.strip()
        for source, target in list(self._glossary.items()):
            self._glossary.setdefault(source[0].upper() + source[1:], target)
        self._lengths = sorted({len(source) for source in self._glossary}, reverse=True)
        self._starts = {source[0] for source in self._glossary}

    def of(self, line: str) -> list[Term]:
        """Return the terms that the translation of a line must contain, in the order of the source."""
        taken: list[_Span] = []
        for span in sorted([*self._kept(line), *self._looked_up(line)]):
            if all(span.end <= other.start or other.end <= span.start for other in taken):
                taken.append(span)
        return [self._term(line, span) for span in sorted(taken, key=lambda span: span.start)]

    def _kept(self, line: str) -> list[_Span]:
        if self.keep is None:
            return []
        found = []
        for match in self.keep.finditer(line):
            text = match[0].strip()
            if text:
                start = match.start() + match[0].index(text)
                found.append(_Span(-len(text), False, start, text))
        return found

    def _looked_up(self, line: str) -> list[_Span]:
        found = []
        for start in range(len(line)) if self._glossary else ():
            if line[start] not in self._starts:
                continue
            for length in self._lengths:
                target = self._glossary.get(line[start : start + length]) if start + length <= len(line) else None
                if target is not None and all(_is_whole(line, start, start + length)):
                    found.append(_Span(-length, True, start, target))
                    break
        return found

    def _term(self, line: str, span: _Span) -> Term:
        left, right = (True, True) if span.looked_up else _is_whole(line, span.start, span.end)
        text, apart = span.text, span.start == 0 or line[span.start - 1].isspace()
        return Term(text, class_of(text[0]) if left else "", class_of(text[-1]) if right else "", apart, span.start)


def compile_keep(keep: str) -> re.Pattern[str] | None:
    """Compile the regular expression; None if it is empty."""
    if not keep:
        return None
    try:
        return re.compile(keep)
    except re.error as error:
        raise ConfigError(f"The pattern of terms to keep, {keep!r}, is not a regular expression: {error}.") from None


def _is_whole(line: str, start: int, end: int) -> tuple[bool, bool]:
    """Return whether each end of a span is a word boundary."""
    first, last = class_of(line[start]), class_of(line[end - 1])
    return (
        not first or start == 0 or class_of(line[start - 1]) != first,
        not last or end == len(line) or class_of(line[end]) != last,
    )
