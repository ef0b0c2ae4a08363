"""Split texts into sentences to translate and what is between them; joined again, they are the text."""

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

import sentencex

_LINE: Final = re.compile(r"[^\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+|[\r\n\v\f\x1c-\x1e\x85\u2028\u2029]+")
_MARKER: Final = re.compile(r"\s*(?:(?:[-*+•‣◦▪·–—>]|#{1,6}|\(?\d{1,3}[.)]|\(?[A-Za-z]\))\s+)*")
"""What begins an item of a list, a heading or a quotation, with the white space around it."""
_STRETCH: Final = 10_000
_WORD: Final = re.compile(r"\S+\s*")


class Segment(NamedTuple):
    """A stretch of a text."""

    text: str
    is_sentence: bool
    """Whether it is a sentence to translate; otherwise it stays as it is: white space, list markers, numbers."""


def segments(text: str, language: str, longest: int) -> Iterator[Segment]:
    """Yield the segments of a plain text, in order; their texts joined are the text.

    A line break ends a sentence. One of more than `longest` characters is cut, between words where it has any.
    """
    for line in _LINE.findall(text):
        marker = _MARKER.match(line)
        body = line[marker.end() :] if marker else line
        yield from _kept(line[: len(line) - len(body)])
        for sentence in split_sentences(body, language, longest):
            core = sentence.strip()
            before, _, after = sentence.partition(core) if core else (sentence, "", "")
            yield from _kept(before)
            if core:
                yield Segment(core, has_letters(core))
            yield from _kept(after)


def split_sentences(line: str, language: str, longest: int) -> list[str]:
    """Split a text without line breaks into sentences, each with the white space after it; joined, they are the text.

    `sentencex` falls back to a related language for those that it does not know.
    """
    return [part for sentence in _found(line, language) for part in _cut(sentence, longest)]


def _found(line: str, language: str) -> Iterator[str]:
    """Yield the sentences, found in one stretch of the text after the other: the time grows with its length alone."""
    done = 0
    while done < len(line):
        stretch = line[done : done + _STRETCH]
        found: list[str] = sentencex.segment(language, stretch)
        if "".join(found) != stretch:  # then nothing is lost, although less is split
            found = [stretch]
        if done + len(stretch) < len(line) and len(found) > 1:
            found.pop()  # it may go on
        yield from found
        done += sum(map(len, found))


def has_letters(text: str) -> bool:
    """Return whether there is anything to translate: numbers and signs alone are the same in every language."""
    return any(character.isalpha() for character in text)


def _kept(text: str) -> Iterator[Segment]:
    if text:
        yield Segment(text, False)


def _cut(sentence: str, longest: int) -> Iterator[str]:
    if len(sentence) <= longest:
        yield sentence
        return
    part = ""
    for word in _WORD.findall(sentence) if sentence[:1].strip() else [sentence]:
        if part and len(part) + len(word) > longest:
            yield part
            part = ""
        part += word
        while len(part) > longest:
            yield part[:longest]
            part = part[longest:]
    if part:
        yield part
