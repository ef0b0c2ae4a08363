"""What characters are: of which script, white space, punctuation, control characters; looked up for whole batches.

Python's `unicodedata` knows no scripts, so a letter's script is the first word of its name (LATIN SMALL LETTER A). A
character is looked up when it first comes and remembered in tables, which NumPy then indexes.
"""

import unicodedata
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

NO_SCRIPT: Final = 0
SPACE: Final = 1
"""White space."""
CONTROL: Final = 2
"""A control character other than tab and line ends, or the mark of a character that was lost."""
FOLDED: Final = 4
"""Left out when texts are folded: white space, punctuation, marks that format."""
SUSPECT: Final = 8
"""What comes where UTF-8 was read as Latin-1."""
TAGGING: Final = 16
"""What begins a tag or an entity of HTML."""
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
    """What is known of each character of a text."""

    script: NDArray[np.uint8]
    """Number of the script that a letter is of; NO_SCRIPT for what is no letter."""
    kind: NDArray[np.uint8]
    """SPACE, CONTROL and FOLDED, SUSPECT and TAGGING, added up."""
    folded: NDArray[np.uint32]
    """The character in lower case; 0 for any decimal digit."""


class Scripts:
    """The characters that were seen so far; `names[n]` is the script with the number n."""

    def __init__(self) -> None:
        self.names = ["none"]
        self._known = np.zeros(_CODES, np.bool_)
        self._script, self._kind = np.zeros(_CODES, np.uint8), np.zeros(_CODES, np.uint8)
        self._folded = np.zeros(_CODES, np.uint32)

    def look_up(self, codes: NDArray[np.uint32]) -> Characters:
        """Look up characters, given by their code points."""
        unknown = codes[~self._known[codes]]
        for code in np.unique(unknown).tolist():
            self._learn(code)
        return Characters(self._script[codes], self._kind[codes], self._folded[codes])

    def number(self, name: str) -> int:
        """Return the number of a script; one that was not seen yet gets the next."""
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
    """Name the script of a letter; None of what is no letter, and of letters that all scripts share."""
    if not unicodedata.category(character).startswith("L"):
        return None
    words = unicodedata.name(character, "").split()
    if words and words[0] in _WIDTHS:
        words = words[1:]
    if not words or words[0] in _NO_SCRIPTS:
        return None
    return _SCRIPTS.get(words[0], words[0].capitalize())
