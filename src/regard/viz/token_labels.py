"""Tokens as people read them, and their width in a terminal.

SentencePiece writes `▁` where a word starts. Labels drop it and mark the opposite: a piece that continues a word gets a
leading `·`, so `▁walk` `ing` reads `walk` `·ing`. Tokens of other kinds are unchanged.
Invisible characters are made visible (a tab as `␉`, white space as `␣`, an empty token as `∅`), and characters that
could move the cursor or change the writing direction never reach a terminal or a file.
"""

import unicodedata
from collections.abc import Sequence, Set

WORD_START = "▁"
CONTINUES = "·"

_JOINERS = "\u200c\u200d"
_VARIATIONS = {0x200D, *range(0xFE00, 0xFE10), *range(0x1F3FB, 0x1F400)}
_RIGHT_TO_LEFT = {"R", "AL", "AN"}
_ISOLATE, _END_ISOLATE = "\u2068", "\u2069"


def friendly(tokens: Sequence[str], special: Set[str] = frozenset()) -> tuple[str, ...]:
    """Return a label for each token; special tokens never count as pieces of words."""
    # A lone ▁ is a space in a character vocabulary: only longer tokens show that ▁ marks the start of words.
    marked = any(token.startswith(WORD_START) and len(token) > 1 for token in tokens if token not in special)
    labels = []
    for token in tokens:
        if not marked or token in special or token == WORD_START:
            labels.append(visible(token))
        elif token.startswith(WORD_START):
            labels.append(visible(token[1:]))
        else:
            labels.append(CONTINUES + visible(token))
    return tuple(labels)


def visible(text: str) -> str:
    """Replace characters that are invisible, or would control the terminal, by visible ones."""
    shown = "".join(_visible(char) for char in text)
    if shown and (_cells(shown[0]) == 0 or unicodedata.category(shown[0]) == "Mc"):
        shown = "◌" + shown  # a combining mark would attach to its neighbour
    return shown or "∅"


def _visible(char: str) -> str:
    code, category = ord(char), unicodedata.category(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    if category == "Zs":
        return "␣"
    if category in ("Cc", "Cs", "Zl", "Zp") or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code <= 0xFDEF:
        return "�"
    return "" if category == "Cf" and char not in _JOINERS else char


def for_terminal(label: str) -> str:
    """Drop joiners, variation selectors and skin tones of emoji, on whose width terminals disagree."""
    return "".join(char for char in label if ord(char) not in _VARIATIONS) or "∅"


def cells(text: str) -> int:
    """Return the number of terminal cells of a text: two for wide characters, none for combining marks."""
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11FF:  # 11xx: inner Hangul letters
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def letters(text: str) -> list[str]:
    """Split into letters with their combining marks."""
    parts: list[str] = []
    for char in text:
        if parts and _cells(char) == 0:
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def shorten(text: str, room: int) -> str:
    """Shorten a text to at most `room` cells, ending in `…` if cut."""
    if cells(text) <= room:
        return text
    kept = ""
    for letter in letters(text):
        if cells(kept + letter) > room - 1:
            break
        kept += letter
    return kept + "…"


def isolate(text: str) -> str:
    """Keep right-to-left text from reordering its neighbours, in terminals that reorder."""
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return f"{_ISOLATE}{text}{_END_ISOLATE}"
    return text
