"""Tokens as people read them, and how wide they are in a terminal.

SentencePiece writes `▁` where a word starts. Here the mark falls away and its opposite is shown instead: a piece that
continues a word gets a leading `·`, so `▁walk` `ing` reads `walk` `·ing`. Tokens of other kinds are left as they are.
What cannot be seen is made visible (a tab as `␉`, white space as `␣`, an empty token as `∅`), and what could move
the cursor or turn the direction of writing never reaches a terminal or a file.
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
    """Return a label for each token; special tokens are never taken for pieces of words."""
    # A lone ▁ is a space among characters: only longer tokens tell that ▁ marks the start of words here.
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
    """Replace what has no shape of its own, or would act on the screen, by something that can be seen."""
    shown = "".join(_visible(char) for char in text)
    if shown and (_cells(shown[0]) == 0 or unicodedata.category(shown[0]) == "Mc"):
        shown = "◌" + shown  # a mark needs a letter to sit on, or it lands on its neighbour
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
    """Drop joiners, variants and skin tones of emoji: terminals disagree on the width of what they make."""
    return "".join(char for char in label if ord(char) not in _VARIATIONS) or "∅"


def cells(text: str) -> int:
    """Count the terminal cells that a text takes: two for wide characters, none for marks."""
    return sum(_cells(char) for char in text)


def _cells(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf") or 0x1160 <= ord(char) <= 0x11FF:  # 11xx: inner Hangul letters
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def letters(text: str) -> list[str]:
    """Split into what takes cells of its own: a letter with the marks on it."""
    parts: list[str] = []
    for char in text:
        if parts and _cells(char) == 0:
            parts[-1] += char
        else:
            parts.append(char)
    return parts


def shorten(text: str, room: int) -> str:
    """Cut a text to at most `room` cells; what was cut ends in `…`."""
    if cells(text) <= room:
        return text
    kept = ""
    for letter in letters(text):
        if cells(kept + letter) > room - 1:
            break
        kept += letter
    return kept + "…"


def isolate(text: str) -> str:
    """Keep right-to-left text from reordering what stands beside it, in terminals that reorder."""
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return f"{_ISOLATE}{text}{_END_ISOLATE}"
    return text
