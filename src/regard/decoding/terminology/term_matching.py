"""Find terms in a text, also while the text is being generated.

A term that begins or ends with a letter matches only a whole word: no other letter may touch it. The same holds for
digits, so that `3` is not found in `2023`. Letters of scripts without spaces may touch one another.

Texts are bytes (UTF-8), since some tokens are only a part of a character.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Unicode names of scripts that write no spaces between words."""


@lru_cache(maxsize=1 << 14)
def class_of(character: str) -> str:
    """Return `letter` or `digit` for characters that form words with others of their kind, and "" for all others."""
    if character.isdecimal():
        return "digit"
    if not character.isalpha() and not unicodedata.category(character).startswith("M"):
        return ""
    return "" if unicodedata.name(character, "").split(" ")[0] in UNSPACED else "letter"


class Scan(NamedTuple):
    """Occurrences of a term in a text."""

    places: list[int]
    """Start of each occurrence, from left to right; no two overlap."""
    open: int | None
    """Start of an occurrence at the very end of an unfinished text: what comes next decides if it is a whole word."""
    end: int
    """End of the last one of `places`."""


class Reading(NamedTuple):
    """What has to be known of a text so far to match a term."""

    before: str = ""
    """The class of the character before the tail."""
    tail: bytes = b""
    """The end of the text where the term may start, or an incomplete character."""


class Pattern(NamedTuple):
    """A term as bytes."""

    text: bytes
    left: str = ""
    """Class of characters not allowed right before it; empty for none."""
    right: str = ""
    """Class of characters not allowed right after it."""

    def scan(self, text: bytes, before: str = "", goes_on: bool = False) -> Scan:
        """Find the term in a text after a character of class `before`; `goes_on` if the text is unfinished."""
        places: list[int] = []
        end = 0
        place = text.find(self.text)
        while place >= 0:
            after = place + len(self.text)
            if not self._begins(text, place, before):
                place = text.find(self.text, place + 1)
                continue
            next_one = _first(text[after:]) if self.right else b" "
            if next_one is None and goes_on:
                return Scan(places, place, end)
            if next_one is not None and _class(next_one) == self.right != "":
                place = text.find(self.text, place + 1)
                continue
            places.append(place)
            end, place = after, text.find(self.text, after)
        return Scan(places, None, end)

    def read(self, reading: Reading, added: bytes) -> tuple[Reading, int]:
        """Append bytes to a text; return the new reading and the number of new certain occurrences."""
        if not reading.tail and self.text[0] not in added:
            last = len(added) - 1
            if last < 0 or added[last] < 0x80:  # as nearly always
                return (Reading(_class(added[last:])) if added else reading), 0
        text = reading.tail + added
        found = self.scan(text, reading.before, goes_on=True)
        start = self._next_start(text, found, reading.before)
        return Reading(_class_before(text, start, reading.before), text[start:]), len(found.places)

    def stands_at_end(self, reading: Reading) -> bool:
        """Whether the term is at the very end, subject to what comes next."""
        return reading.tail.startswith(self.text)

    def _begins(self, text: bytes, place: int, before: str) -> bool:
        return not self.left or _class_before(text, place, before) != self.left

    def _next_start(self, text: bytes, found: Scan, before: str) -> int:
        """Return where the next occurrence may start, or else the start of an incomplete character."""
        if found.open is not None:
            return found.open
        for place in range(max(found.end, len(text) - len(self.text) + 1), len(text)):
            if self.text.startswith(text[place:]) and self._begins(text, place, before):
                return place
        for place in range(max(0, len(text) - 3), len(text)):
            if text[place] >= 0xC0 and _first(text[place:]) is None:
                return place
        return len(text)


def _first(text: bytes) -> bytes | None:
    """Return the first character of a text; None if it is incomplete."""
    if not text:
        return None
    size = 1 if text[0] < 0xC0 else 2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4
    begun = text[:size]
    whole = len(begun) == size or any(byte & 0xC0 != 0x80 for byte in begun[1:])
    return begun if whole else None


def _class_before(text: bytes, place: int, before: str) -> str:
    """Return the class of the character that ends at `place`."""
    if not place:
        return before
    start = place - 1
    while start and text[start] & 0xC0 == 0x80 and place - start < 4:
        start -= 1
    return _class(text[start:place])


@lru_cache(maxsize=1 << 14)
def _class(character: bytes) -> str:
    return class_of(character.decode(errors="replace")[0])
