"""Unicode properties of characters (script, white space, punctuation, control), looked up for whole batches.

Python's `unicodedata` has no scripts, so a letter's script is the first word of its name (LATIN SMALL LETTER A). Each
character is looked up once and stored in tables, which NumPy then indexes.
"""

import unicodedata
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_SCRIPT: Final = 0
SPACE: Final = 1
"""White space."""
CONTROL: Final = 2
"""A control character other than tab and line ends, or the replacement character U+FFFD."""
FOLDED: Final = 4
"""Dropped when texts are folded: white space, punctuation, formatting characters."""
SUSPECT: Final = 8
"""Characters that appear when UTF-8 is decoded as Latin-1."""
TAGGING: Final = 16
"""Characters that start an HTML tag or entity."""
_CODES: Final = 0x110000
_LOST: Final = "\ufffd"
_SUSPECT: Final = "ÂÃâÐÑ"
_WIDTHS: Final = ("FULLWIDTH", "HALFWIDTH")
_SCRIPTS: Final = {"CJK": "Han", "IDEOGRAPHIC": "Han"} | dict.fromkeys(
    ("HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA"), "Kana"
)
_NO_SCRIPTS: Final = frozenset(
    (
        "ANGSTROM",
        "BLACK-LETTER",
        "DOUBLE-STRUCK",
        "FEMININE",
        "KELVIN",
        "MASCULINE",
        "MATHEMATICAL",
        "MICRO",
        "MODIFIER",
    )
)


class Characters(NamedTuple):
    """The properties of each character of a text."""

    script: NDArray[np.uint8]
    """The number of a letter's script; NO_SCRIPT for other characters."""
    kind: NDArray[np.uint8]
    """Bit flags: SPACE, CONTROL, FOLDED, SUSPECT, TAGGING."""
    folded: NDArray[np.uint32]
    """The character in lower case; 0 for any decimal digit."""


class Scripts:
    """Tables of the characters seen so far; `names[n]` is the script with number n."""

    def __init__(self) -> None:
        self.names = ["none"]
        self._known = np.zeros(_CODES, np.bool_)
        self._script, self._kind = np.zeros(_CODES, np.uint8), np.zeros(_CODES, np.uint8)
        self._folded = np.zeros(_CODES, np.uint32)

    def look_up(self, codes: NDArray[np.uint32]) -> Characters:
        """Return the properties of characters, given by code points."""
        unknown = codes[~self._known[codes]]
        for code in np.unique(unknown).tolist():
            self._learn(code)
        return Characters(self._script[codes], self._kind[codes], self._folded[codes])

    def number(self, name: str) -> int:
        """Return the number of a script; a new script gets the next number."""
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def _learn(self, code: int) -> None:
        character = chr(code)
        category = unicodedata.category(character)
        name = script_of(character)
        self._known[code] = True
        self._script[code] = NO_SCRIPT if name is None else self.number(name)
        is_space, is_control = character.isspace(), category == "Cc" and character not in "\t\n\r"
        folded = is_space or (category[0] in "PZC" and character != _LOST)
        kind = SPACE * is_space + CONTROL * (is_control or character == _LOST) + FOLDED * folded
        self._kind[code] = kind + SUSPECT * (character in _SUSPECT) + TAGGING * (character in "<&")
        self._folded[code] = 0 if category == "Nd" else ord(character.lower()[0])


def script_of(character: str) -> str | None:
    """Return the script of a letter; None for other characters, and for letters that all scripts share."""
    if not unicodedata.category(character).startswith("L"):
        return None
    words = unicodedata.name(character, "").split()
    if words and words[0] in _WIDTHS:
        words = words[1:]
    if not words or words[0] in _NO_SCRIPTS:
        return None
    return _SCRIPTS.get(words[0], words[0].capitalize())
