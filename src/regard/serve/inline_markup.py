"""Paragraphs with markup inside: translate them as sentences, and put the markup around the words that came from it.

A paragraph is text in which elements (such as `<b>…</b>`) span characters. It is translated without them. Then every
element is placed around the words whose source words it held, which the attention tells, once and properly nested; an
empty one goes after the word before it. A word that is the same in both languages is written as in the source, with
the entities and the markup inside it.
"""

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Final

from regard.serve.sentence_translation import Rendering
from regard.serve.sentences import has_letters, split_sentences

_WORD: Final = re.compile(r"\S+")
_PUNCTUATION: Final = ".,;:!?…。，、！？)]}»”’\"'"
_RUN: Final = re.compile(r"\S+|\s+")


@dataclass(eq=False)
class Element:
    """Something that spans a part of a paragraph; empty where `start == end`."""

    start: int
    end: int
    """Characters of the paragraph's text."""
    payload: Any = None
    """What it is, which the caller knows."""
    children: list["Element"] = field(default_factory=list)
    low: int = 0
    high: int = 0
    """Where it is placed: units of the translation."""


@dataclass(frozen=True)
class Unit:
    """A stretch of a translated paragraph that no element divides."""

    raw: str
    source: int | None
    """The source unit that it came from, if that is known."""
    is_space: bool = False


@dataclass(frozen=True)
class Sentence:
    """A sentence of a paragraph."""

    start: int
    end: int
    text: str
    """What is translated: with single spaces."""


class Paragraph:
    """A text with elements in it."""

    def __init__(self, text: str, raw: Sequence[str], root: Element) -> None:
        """`raw` has what each character is written as; `root` spans all of the text."""
        assert len(raw) == len(text)
        self.text, self.raw, self.root = text, raw, root
        self.sentences: list[Sentence] = []
        self._cuts: list[int] = []

    def split(self, language: str, longest: int) -> None:
        """Find the sentences; white space is read as one space, whatever it is."""
        plain, places = _single_spaces(self.text)
        ends = [0, *accumulate(len(part) for part in split_sentences(plain, language, longest))]
        for begin, end in pairwise(ends):
            core = plain[begin:end].strip()
            if has_letters(core):
                start = begin + plain[begin:end].index(core)
                last = places[start + len(core) - 1]
                self.sentences.append(Sentence(places[start], last + 1, core))
        borders = {0, len(self.text), *(at for match in _RUN.finditer(self.text) for at in match.span())}
        borders |= {at for sentence in self.sentences for at in (sentence.start, sentence.end)}
        borders |= {at for each in _inside(self.root) for at in (each.start, each.end)}
        self._cuts = sorted(borders)

    def project(
        self, translations: Mapping[str, Rendering], escape: Callable[[str], str]
    ) -> tuple[list[Unit], Element]:
        """Return the units of the translation, and the elements with their places among them."""
        units = list(self._units(translations, escape))
        _Placing(units, len(self._cuts) - 1, self._cuts).place(self.root)
        return units, self.root

    def _units(self, translations: Mapping[str, Rendering], escape: Callable[[str], str]) -> Iterator[Unit]:
        done = 0
        for sentence in self.sentences:
            yield from self._copied(done, sentence.start)
            yield from self._translated(sentence, translations[sentence.text], escape)
            done = sentence.end
        yield from self._copied(done, len(self.text))

    def _copied(self, start: int, end: int) -> Iterator[Unit]:
        """Yield the units of a part of the source as they are."""
        first, last = (bisect_left(self._cuts, at) for at in (start, end))
        for place in range(first, last):
            begin, stop = self._cuts[place], self._cuts[place + 1]
            yield Unit("".join(self.raw[begin:stop]), place, self.text[begin].isspace())

    def _translated(self, sentence: Sentence, found: Rendering, escape: Callable[[str], str]) -> Iterator[Unit]:
        words = [match.span() for match in _WORD.finditer(self.text, sentence.start, sentence.end)]
        written, links = found.text, found.links
        done, before = 0, None  # the source word that was copied last
        for place, match in enumerate(_WORD.finditer(written)):
            own = links[place] if place < len(links) and links[place] < len(words) else None
            start, end = words[own] if own is not None else (0, 0)
            is_copy = own is not None and self.text[start:end] == match.group()
            if is_copy and before is not None and own == before + 1:
                yield from self._copied(words[before][1], start)
            elif match.start() > done:
                yield Unit(escape(written[done : match.start()]), None, is_space=True)
            if is_copy:
                yield from self._copied(start, end)
            else:
                last = sentence.end if match.end() == len(written) else end
                yield from self._new(match.group(), start, end, last, escape)
            done, before = match.end(), own if is_copy else None
        if done < len(written):
            yield Unit(escape(written[done:]), None, is_space=True)

    def _new(self, word: str, start: int, end: int, last: int, escape: Callable[[str], str]) -> Iterator[Unit]:
        """Yield a word that came from the source word from `start` to `end`.

        Its punctuation comes from where the same punctuation ends: the source word, or at the end of a sentence, that.
        """
        if start == end:
            yield Unit(escape(word), None)
            return
        core = word.rstrip(_PUNCTUATION)
        mark = word[len(core) :]
        at = next((at for at in (last, end) if core and mark and self.text.endswith(mark, start, at)), None)
        if at is None:
            yield Unit(escape(word), self._longest(start, end))
            return
        yield Unit(escape(core), self._longest(start, end - len(mark) if at == end else end))
        yield Unit(escape(mark), self._longest(at - len(mark), at))

    def _longest(self, start: int, end: int) -> int:
        """Return the longest unit with a part of a word: there is one, unless markup divides it."""
        first, last = bisect_right(self._cuts, start) - 1, max(bisect_left(self._cuts, end), 1)
        return max(range(first, last), key=lambda place: self._cuts[place + 1] - self._cuts[place])


class _Placing:
    """Places elements among the units of a translation."""

    def __init__(self, units: Sequence[Unit], count: int, cuts: Sequence[int]) -> None:
        self._size, self._cuts = len(units), cuts
        self._where: list[list[int]] = [[] for _ in range(count)]
        for place, unit in enumerate(units):
            if unit.source is not None:
                self._where[unit.source].append(place)
        self._linked = [0, *accumulate(int(unit.source is not None) for unit in units)]
        last = -1
        self._before: list[int] = []  # the last unit up to each that was translated to something
        for place, own in enumerate(self._where):
            last = place if own else last
            self._before.append(last)

    def place(self, root: Element) -> None:
        """Place an element that spans everything, and all that is in it."""
        root.low, root.high = 0, self._size
        waiting = [root]
        while waiting:
            parent = waiting.pop()
            taken: list[tuple[int, int]] = []
            for child in parent.children:
                self._place(child, parent, taken)
                if child.low < child.high:
                    insort(taken, (child.low, child.high))
            for child in parent.children:
                if child.low == child.high:
                    child.low = child.high = _outside(child.low, taken)
            parent.children.sort(key=lambda child: child.low)  # stable: else in the order of the source
            waiting.extend(parent.children)

    def _place(self, child: Element, parent: Element, taken: Sequence[tuple[int, int]]) -> None:
        """Choose the run of units with most that came from the element and least that came from elsewhere."""
        first, last = (bisect_left(self._cuts, at) for at in (child.start, child.end))
        places = sorted(place for unit in range(first, last) for place in self._where[unit])
        most, gain, start, before = 0, 0, 0, None
        child.low = child.high = self._after(first, parent)
        for place in places:
            if not parent.low <= place < parent.high or _outside(place, taken, within=True) != place:
                continue
            if before is not None:
                gain -= self._linked[place] - self._linked[before + 1]
            if before is None or gain <= 0 or _between(before, place, taken):
                gain, start = 0, place
            gain, before = gain + 1, place
            if gain > most:
                most, child.low, child.high = gain, start, place + 1

    def _after(self, unit: int, parent: Element) -> int:
        """Return the place after what the source units before `unit` became, within the parent."""
        found = self._before[unit - 1] if unit > 0 else -1
        if found < 0 or self._cuts[found] < parent.start:
            return parent.low
        return min(max(self._where[found][-1] + 1, parent.low), parent.high)


def _outside(place: int, taken: Sequence[tuple[int, int]], within: bool = False) -> int:
    """Return the place, or the end of the interval that it is inside of; with `within`, also if it begins there."""
    at = bisect_right(taken, place, key=_low) - 1
    if at >= 0:
        low, high = taken[at]
        if low < place < high or (within and low == place):
            return high
    return place


def _between(before: int, place: int, taken: Sequence[tuple[int, int]]) -> bool:
    """Return whether an interval lies between two places."""
    at = bisect_right(taken, before, key=_low)
    return at < len(taken) and taken[at][0] < place


def _low(interval: tuple[int, int]) -> int:
    return interval[0]


def _inside(element: Element) -> Iterator[Element]:
    waiting = [*element.children]
    while waiting:
        each = waiting.pop()
        yield each
        waiting.extend(each.children)


def _single_spaces(text: str) -> tuple[str, list[int]]:
    """Return a text with each stretch of white space as one space, and where its characters were."""
    plain: list[str] = []
    places: list[int] = []
    for match in _RUN.finditer(text):
        if match.group()[0].isspace():
            plain.append(" ")
            places.append(match.start())
        else:
            plain.append(match.group())
            places.extend(range(*match.span()))
    return "".join(plain), places
