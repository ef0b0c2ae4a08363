"""Where a term stands in a text, also while the text is still being written.

A term that begins or ends with a letter stands there as a whole word: no other letter touches it. The same holds for
digits, so that `3` is not found in `2023`. Letters of scripts without spaces may touch one another.

Texts are bytes (UTF-8), since some tokens add only a part of a character.
"""

import unicodedata
from functools import lru_cache
from typing import NamedTuple

UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""How Unicode names the letters of scripts that write no spaces between words."""


@lru_cache(maxsize=1 << 14)
def class_of(character: str) -> str:
    """Return `letter` or `digit` for what belongs to a word with others of its kind, and nothing for all else."""
    if character.isdecimal():
        return "digit"
    if not character.isalpha() and not unicodedata.category(character).startswith("M"):
        return ""
    return "" if unicodedata.name(character, "").split(" ")[0] in UNSPACED else "letter"


class Scan(NamedTuple):
    """Where a term was found in a text."""

    places: list[int]
    """Where it begins, from left to right; no two overlap."""
    open: int | None
    """Where it stands at the very end of a text that goes on: what comes next decides whether it is a whole word."""
    end: int
    """Where the last one of `places` ends."""


class Reading(NamedTuple):
    """What a term has to know of a text so far."""

    before: str = ""
    """The class of the character before the tail."""
    tail: bytes = b""
    """The end of the text, as far as the term may begin there; or a part of a character."""


class Pattern(NamedTuple):
    """A term as bytes."""

    text: bytes
    left: str = ""
    """The class of characters that may not stand right before it; none if it is empty."""
    right: str = ""
    """The class of characters that may not stand right after it."""

    def scan(self, text: bytes, before: str = "", goes_on: bool = False) -> Scan:
        """Find the term in a text that follows a character of class `before`, and ends unless it `goes_on`."""
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
        """Go on with a text by some bytes; tell how many more occurrences are sure now."""
        if not reading.tail and self.text[0] not in added:
            last = len(added) - 1
            if last < 0 or added[last] < 0x80:  # as nearly always
                return (Reading(_class(added[last:])) if added else reading), 0
        text = reading.tail + added
        found = self.scan(text, reading.before, goes_on=True)
        start = self._next_start(text, found, reading.before)
        return Reading(_class_before(text, start, reading.before), text[start:]), len(found.places)

    def stands_at_end(self, reading: Reading) -> bool:
        """Whether the term was just written, and only waits for what comes next."""
        return reading.tail.startswith(self.text)

    def _begins(self, text: bytes, place: int, before: str) -> bool:
        return not self.left or _class_before(text, place, before) != self.left

    def _next_start(self, text: bytes, found: Scan, before: str) -> int:
        """Return where the next occurrence may begin, or else the place of a character that is not whole."""
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
    """Return the first character of a text; None where it is not whole yet."""
    if not text:
        return None
    size = 1 if text[0] < 0xC0 else 2 if text[0] < 0xE0 else 3 if text[0] < 0xF0 else 4
    begun = text[:size]
    whole = len(begun) == size or any(byte & 0xC0 != 0x80 for byte in begun[1:])
    return begun if whole else None


def _class_before(text: bytes, place: int, before: str) -> str:
    """Return the class of the character that ends at a place."""
    if not place:
        return before
    start = place - 1
    while start and text[start] & 0xC0 == 0x80 and place - start < 4:
        start -= 1
    return _class(text[start:place])


@lru_cache(maxsize=1 << 14)
def _class(character: bytes) -> str:
    return class_of(character.decode(errors="replace")[0])
