"""What every tokenizer does, and the pair of them that a model has."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.special_tokens import EOS, UNK
from regard.registry import Registry


class Tokenizer(ABC):
    """Turns raw text into ids and back. The ids 0 to 3 are the marks of `regard.data.special_tokens`."""

    kind: str

    @property
    @abstractmethod
    def size(self) -> int:
        """How many entries the vocabulary has, the marks included."""

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """Ids of tags that may stand before a source, and never in a translation; most tokenizers have none."""
        return ()

    @property
    def control_ids(self) -> tuple[int, ...]:
        """Ids of control characters that no text it was learnt from has often; most tokenizers have none."""
        return ()

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts at once, which is faster than one after the other; no marks are added."""

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Encode many texts, each as raw numbers of a type that NumPy knows: what a cache of tokens is made of."""
        return [np.array(ids, dtype).tobytes() for ids in self.encode_all(texts)]

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Write the text that the ids stand for; marks are skipped, but the unknown one reads `<unk>`."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Show each id, such as `▁the` (▁ is a space) or `</s>`."""

    @abstractmethod
    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Give the text that each id adds, white space included; nothing for marks, `<unk>` for the unknown."""

    def spell(self, token: int) -> bytes:
        """Give the bytes that one id adds to a text; other than in `surfaces`, a part of a character is one, too."""
        return self.surfaces([token])[0].encode()

    def encode(self, text: str) -> list[int]:
        """Turn raw text into ids, without any mark."""
        return self.encode_all([text])[0]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Tell for each id which word it belongs to, words being what white space separates, counted from 0.

        An id that is white space alone goes with the word that follows (with the last one, at the end). Marks belong
        to none: -1; but what is unknown is (part of) a word.
        """
        word, between, found = -1, True, []
        for surface, mark in zip(self.surfaces(ids), map(is_mark, ids), strict=True):
            if mark:
                found.append(-1)
                continue
            first = None
            for character in surface:
                if character.isspace():
                    between = True
                    continue
                word, between = word + between, False
                first = word if first is None else first
            # An id in the middle of a character that takes several adds no text: it goes on with the word before.
            found.append(first if first is not None else word + between)
        return [min(number, word) for number in found]


class Learned(Tokenizer):
    """A tokenizer that is learnt from texts and kept in a file."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Write all there is to know about it; `from_bytes` of its class reads it."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, content: bytes) -> "Learned":
        """Read what `to_bytes` wrote; anything else is a ValueError."""

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Learned":
        """Learn a vocabulary of at most this many entries."""


def is_mark(token: int) -> bool:
    """Tell whether an id is no part of any text: padding, beginning or end."""
    return token <= EOS and token != UNK


kinds: Registry[type[Learned]] = Registry("tokenizer", "tokenizers")
