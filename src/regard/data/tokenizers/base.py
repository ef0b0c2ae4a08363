"""The interface of tokenizers."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from regard.data.special_tokens import EOS, UNK
from regard.registry import Registry


class Tokenizer(ABC):
    """Converts raw text to ids and back. Ids 0 to 3 are the special tokens of `regard.data.special_tokens`."""

    kind: str

    @property
    @abstractmethod
    def size(self) -> int:
        """The vocabulary size, special tokens included."""

    @property
    def tag_ids(self) -> tuple[int, ...]:
        """Ids of tags, which may start a source but never occur in a translation; most tokenizers have none."""
        return ()

    @property
    def control_ids(self) -> tuple[int, ...]:
        """Ids of control characters that are rare in the training texts; most tokenizers have none."""
        return ()

    @abstractmethod
    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Encode many texts at once, which is faster than one by one; no special tokens are added."""

    def pack(self, texts: Sequence[str], dtype: str) -> list[bytes]:
        """Encode many texts, each to the raw bytes of a NumPy array of type `dtype`, for the token cache."""
        return [np.array(ids, dtype).tobytes() for ids in self.encode_all(texts)]

    @abstractmethod
    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of ids; special tokens are skipped, except that the unknown token becomes `<unk>`."""

    @abstractmethod
    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the display form of each id, such as `▁the` (▁ is a space) or `</s>`."""

    @abstractmethod
    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id, white space included; empty for special tokens, but `<unk>` for unknown."""

    def spell(self, token: int) -> bytes:
        """Return the bytes of one id; unlike `surfaces`, this may be a part of a character."""
        return self.surfaces([token])[0].encode()

    def encode(self, text: str) -> list[int]:
        """Convert raw text to ids, without special tokens."""
        return self.encode_all([text])[0]

    def words(self, ids: Sequence[int]) -> list[int]:
        """Return the word number of each id, with words split at white space and counted from 0.

        An id of only white space belongs to the following word (at the end, to the last one). Special tokens belong to
        no word (-1), except that the unknown token is (part of) a word.
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
            # An id in the middle of a multi-byte character has no text: it belongs to the previous word.
            found.append(first if first is not None else word + between)
        return [min(number, word) for number in found]


class Learned(Tokenizer):
    """A tokenizer that is learned from texts and saved to a file."""

    @abstractmethod
    def to_bytes(self) -> bytes:
        """Serialise the tokenizer for `from_bytes`."""

    @classmethod
    @abstractmethod
    def from_bytes(cls, content: bytes) -> "Learned":
        """Deserialise the output of `to_bytes`; raise a ValueError for anything else."""

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Learned":
        """Learn a vocabulary of at most `vocabulary` entries."""


def is_mark(token: int) -> bool:
    """Return whether an id is the padding, start or end token."""
    return token <= EOS and token != UNK


kinds: Registry[type[Learned]] = Registry("tokenizer", "tokenizers")
