"""Character and word tokenizers."""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import ClassVar, Final

from regard.data.special_tokens import MARKS, UNK
from regard.data.tokenizers.base import Learned, is_mark, kinds
from regard.errors import DataError
from regard.folder_files import parse_json

MOST_COUNTED: Final = 1_000_000
"""Maximum distinct units counted at a time; beyond it the rarest are dropped, to bound the memory."""


class Plain(Learned):
    """A tokenizer with a list of units, whose ids are their positions."""

    separator: ClassVar[str]

    def __init__(self, units: Iterable[str]) -> None:
        self._units = (*MARKS, *units)
        self._ids = {unit: i for i, unit in enumerate(self._units) if i >= len(MARKS)}
        if len(self._ids) + len(MARKS) != len(self._units):
            raise ValueError("a unit is there twice")

    @staticmethod
    @abstractmethod
    def split(text: str) -> Sequence[str]:
        """Split a text into units."""

    @property
    def size(self) -> int:
        """The vocabulary size: units and special tokens."""
        return len(self._units)

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Look up each unit; missing ones become the unknown token."""
        return [[self._ids.get(unit, UNK) for unit in self.units(text)] for text in texts]

    def units(self, text: str) -> Iterable[str]:
        """Return the unit of each token of a text, known or not."""
        return self.split(text)

    def decode(self, ids: Sequence[int]) -> str:
        """Join the units."""
        return self.separator.join(self._units[i] for i in ids if not is_mark(i))

    def to_bytes(self) -> bytes:
        """Serialise the units as a JSON list, one per line."""
        return json.dumps(self._units[len(MARKS) :], ensure_ascii=False, indent=0).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> "Plain":
        """Deserialise the list."""
        if content.count(b'",') > 2 * MOST_COUNTED:
            raise ValueError("more units than any training makes")
        units = parse_json(content)
        if not isinstance(units, list) or not all(isinstance(unit, str) and unit for unit in units):
            raise ValueError("not a list of units")
        "".join(units).encode()  # half of a surrogate pair, which JSON can spell, could not be printed
        return cls(units)

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Plain":
        """Keep the most frequent units; ties are broken by sort order."""
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
    """Return a sort key: most frequent first, ties by the unit itself."""
    unit, count = counted
    return -count, unit


@kinds.register("characters")
class Characters(Plain):
    """One id for each character (code point), spaces included."""

    kind = "characters"
    separator = ""

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Return the text: a string is a sequence of characters."""
        return text

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the characters, a space as ▁."""
        return ["▁" if self._units[i] == " " else self._units[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return the characters."""
        return ["" if is_mark(i) else self._units[i] for i in ids]


@kinds.register("words")
class Words(Plain):
    """One id for each word, split at white space. Decoding joins words by single spaces."""

    kind = "words"
    separator = " "

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Split at any white space."""
        return text.split()

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the words."""
        return [self._units[i] for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return the words, each with a leading space."""
        return ["" if is_mark(i) else f" {self._units[i]}" for i in ids]
