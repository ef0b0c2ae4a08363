"""How a vocabulary spells a term: the bytes that each token adds to a text, and the tokens that write the term."""

from collections.abc import Sequence
from typing import NamedTuple

from regard.data.tokenizers.base import Tokenizer
from regard.data.vocabulary import MARKS, UNK
from regard.decoding.occurrences import class_of

UNKNOWN = "\ufdd2"
"""Stands for what the vocabulary lacks. Unicode reserves it for the inside of programs."""
_APART = "\t"
"""No piece of subwords holds it, so what follows it is spelt as if it were glued to something."""


class Ways(NamedTuple):
    """The tokens that write a term in the middle of a text."""

    always: tuple[int, ...]
    """Writes it anywhere, as a word of its own where words are set apart by spaces."""
    glued: tuple[int, ...] | None = None
    """Writes it right after what is there."""
    first: tuple[int, ...] | None = None
    """Writes it at the start of a text."""


class Spelling:
    """What a target tokenizer's tokens add to a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.kind = tokenizer.kind
        self.spaces = self.kind != "characters" or UNK not in tokenizer.encode(" ")
        """Whether it can write a space."""
        self.sets_apart = self.spaces and _is_spaced(tokenizer)
        """Whether its words are set apart by spaces."""
        self._known: dict[int, bytes] = {}

    def bytes_of(self, token: int) -> bytes:
        """Return what a token adds; `UNKNOWN` for what stands for anything."""
        if token not in self._known:
            spelt = self.tokenizer.spell(token)
            self._known[token] = spelt.replace(b"<unk>", UNKNOWN.encode()) if token == UNK else spelt
        return self._known[token]

    def text_of(self, tokens: Sequence[int]) -> bytes:
        """Return what tokens write, without the space before the first."""
        return b"".join(map(self.bytes_of, tokens)).removeprefix(b" ")

    def units(self, term: str) -> Sequence[str]:
        """Return what of a term each token writes, where tokens are whole words or characters."""
        return term.split() if self.kind == "words" else term

    def ways(self, term: str) -> Ways:
        """Return how a term is written."""
        encode = self.tokenizer.encode
        first = tuple(encode(term))
        if self.kind == "words":
            return Ways(first)
        if self.kind == "characters":
            return Ways(tuple(encode(f" {term}")), first) if self.spaces and spaced(term) else Ways(first)
        before, both = encode(_APART), encode(_APART + term)
        glued = tuple(both[len(before) :]) if both[: len(before)] == before else None
        if spaced(term) or glued is None:
            return Ways(first, glued)
        return Ways(glued, first=first)


def _is_spaced(tokenizer: Tokenizer) -> bool:
    """Whether more of a vocabulary is written in scripts with spaces than in others."""
    surfaces = tokenizer.surfaces(
        [token for token in range(len(MARKS), tokenizer.size) if token not in tokenizer.tag_ids]
    )
    first = [letter for letter in (next(filter(str.isalpha, surface), "") for surface in surfaces) if letter]
    return sum(bool(class_of(letter)) for letter in first) * 2 >= len(first)


def spaced(term: str) -> bool:
    """Whether a term is written in a script with spaces, as far as its first character tells."""
    return bool(class_of(term[0])) or not term[0].isalpha()
