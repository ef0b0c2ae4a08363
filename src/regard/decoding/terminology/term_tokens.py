"""How a vocabulary spells a term: the bytes that each token adds to a text, and the tokens of the term."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from regard.data.special_tokens import MARKS, UNK
from regard.data.tokenizers.base import Tokenizer
from regard.decoding.terminology.term_matching import class_of

_APART = "\t"
"""No subword contains it, so what follows it is encoded as if joined to something."""


class Unit(NamedTuple):
    """A token of a term."""

    token: int
    text: bytes
    """The text it adds; for the unknown token, what it stands for."""


Way = tuple[Unit, ...]


class Ways(NamedTuple):
    """Tokenizations of a term."""

    always: Way
    """Anywhere, as a word of its own if the script has spaces."""
    glued: Way | None = None
    """Joined to what is before."""
    first: Way | None = None
    """At the start of a text."""


class Spelling:
    """The texts of a target tokenizer's tokens."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.tokenizer = tokenizer
        self.kind = tokenizer.kind
        self.spaces = self.kind != "characters" or UNK not in tokenizer.encode(" ")
        """Whether it can encode a space."""
        self._known: dict[int, bytes] = {}

    @cached_property
    def sets_apart(self) -> bool:
        """Whether spaces separate its words."""
        return self.spaces and _is_spaced(self.tokenizer)

    def bytes_of(self, token: int) -> bytes:
        """Return the bytes that a token adds."""
        if token not in self._known:
            self._known[token] = self.tokenizer.spell(token)
        return self._known[token]

    def ways(self, term: str) -> Ways:
        """Return the tokenizations of a term."""
        encode = self.tokenizer.encode
        if self.kind == "words":
            return Ways(self._units(encode(term), [f" {word}" for word in term.split()]))
        if self.kind == "characters":
            glued = self._units(encode(term), term)
            spelt = f" {term}"
            return Ways(self._units(encode(spelt), spelt), glued) if self.spaces and spaced(term) else Ways(glued)
        first, before, both = self._units(encode(term)), encode(_APART), encode(_APART + term)
        rest = self._units(both[len(before) :]) if both[: len(before)] == before else None
        return Ways(first, rest) if spaced(term) or rest is None else Ways(rest, first=first)

    def _units(self, tokens: Sequence[int], texts: Sequence[str] | None = None) -> Way:
        if texts is None:  # subwords spell everything
            return tuple(Unit(token, self.bytes_of(token)) for token in tokens)
        return tuple(Unit(token, text.encode()) for token, text in zip(tokens, texts, strict=True))


def spaced(term: str) -> bool:
    """Whether a term is in a script with spaces, judging by its first character."""
    return bool(class_of(term[0])) or not term[0].isalpha()


def _is_spaced(tokenizer: Tokenizer) -> bool:
    """Whether at least half of a vocabulary's entries are in scripts with spaces."""
    entries = [token for token in range(len(MARKS), tokenizer.size) if token not in tokenizer.tag_ids]
    first = [next(filter(str.isalpha, surface), "") for surface in tokenizer.surfaces(entries)]
    letters = [letter for letter in first if letter]
    return sum(bool(class_of(letter)) for letter in letters) * 2 >= len(letters)
