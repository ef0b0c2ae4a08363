"""Tokenizers without subwords: one id for a character, or for a word."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from regard.data.special_tokens import MARKS, UNK
from regard.data.tokenizers.base import Learned, is_mark, kinds
from regard.errors import DataError

MOST_COUNTED: Final = 1_000_000
"""Different units counted at once: beyond, the rarest are forgotten, so that a huge corpus does not fill the memory."""


class Plain(Learned):
    """Units in a list: the id of a unit is its place there."""

    separator: ClassVar[str]

    def __init__(self, units: Iterable[str]) -> None:
        self._units = (*MARKS, *units)
        self._ids = {unit: i for i, unit in enumerate(self._units) if i >= len(MARKS)}
        if len(self._ids) + len(MARKS) != len(self._units):
            raise ValueError("a unit is there twice")

    @staticmethod
    @abstractmethod
    def split(text: str) -> Sequence[str]:
        """Cut a text into units."""

    @property
    def size(self) -> int:
        """Count the units and the marks."""
        return len(self._units)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Look each unit up; what is not there is unknown."""
        return [[self._ids.get(unit, UNK) for unit in self.units(text)] for text in texts]

    def units(self, text: str) -> Iterable[str]:
        """Return what each token of a text stands for, whether it is known or not."""
        return self.split(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Put the units together again."""
        return self.separator.join(self._units[i] for i in ids if not is_mark(i))

    def to_bytes(self) -> bytes:
        """Write the units as a JSON list, one a line."""
        return json.dumps(self._units[len(MARKS) :], ensure_ascii=False, indent=0).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Plain":
        """Read the list again."""
        units = json.loads(content)
        if not isinstance(units, list) or not all(isinstance(unit, str) and unit for unit in units):
            raise ValueError("not a list of units")
        return cls(units)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Plain":
        """Take the most frequent units, of equally frequent ones those that sort first."""
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls.split(text))
            if len(counts) > MOST_COUNTED:
                counts = Counter(dict(sorted(counts.items(), key=rank)[: MOST_COUNTED // 2]))
        if not counts:
            raise DataError("There is no text to learn a vocabulary from.")
        commonest = sorted(counts.items(), key=rank)[: vocabulary - len(MARKS)]
        return cls(unit for unit, _ in commonest)


def rank(counted: tuple[str, int]) -> tuple[int, str]:
    """Sort the most frequent first, of equally frequent ones those that sort first."""
    unit, count = counted
    return -count, unit


@kinds.register("characters")
class Characters(Plain):
    """One id for each character (code point), spaces included."""

    kind = "characters"
    separator = ""

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Take the text as it is: a string is a sequence of characters."""
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show the character; a space as ▁."""
        return ["▁" if self._units[i] == " " else self._units[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Give the character."""
        return ["" if is_mark(i) else self._units[i] for i in ids]


@kinds.register("words")
class Words(Plain):
    """One id for each word that white space separates. Which white space it was is not kept: one space comes back."""

    kind = "words"
    separator = " "

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Cut at white space of any kind."""
        return text.split()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show the word."""
        return [self._units[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Give the word with a space before it."""
        return ["" if is_mark(i) else f" {self._units[i]}" for i in ids]
