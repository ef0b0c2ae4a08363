"""A tokenizer of frequent words and characters: all other words are spelled."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from regard.data.special_tokens import MARKS
from regard.data.tokenizers.base import is_mark, kinds
from regard.data.tokenizers.characters_and_words import MOST_COUNTED, Plain, rank
from regard.errors import DataError

_SPACE: Final = " "
_SHARE: Final = 400
"""A word is kept whole if it occurs at least once per this many texts ..."""
_FEWEST: Final = 20
"""... and at least this many times."""


_LONGEST: Final = 64
"""Maximum characters of a word that is kept whole."""


@kinds.register("spelled")
class Spelled(Plain):
    """One id for each frequent word, and one for each character of all other words.

    Grammatical features, commands and phonemes are frequent words; lemmas, names and numbers are spelled. A unit that
    starts with a space is a whole word. The space between a whole word and its neighbour is implied; any other space is
    a character, so that decoding restores every text exactly.
    """

    kind = "spelled"
    separator = ""

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Split at each space."""
        return text.split(_SPACE)

    def units(self, text: str) -> Iterator[str]:
        """Yield in-vocabulary words whole, each with a leading space, and the characters of all others."""
        before = None
        for word in self.split(text):
            whole = bool(word) and _SPACE + word in self._ids
            if before is not None and not (word and before and (whole or _SPACE + before in self._ids)):
                yield _SPACE
            if whole:
                yield _SPACE + word
            else:
                yield from word
            before = word

    def decode(self, ids: Sequence[int]) -> str:
        """Join the units, with the implied spaces."""
        return "".join(self.surfaces([i for i in ids if not is_mark(i)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the units, spaces as ▁, with which whole words start."""
        return [self._units[i].replace(_SPACE, "▁") for i in ids]

    def surfaces(self, ids: Sequence[int]) -> list[str]:
        """Return each character or word, after an implied space if any."""
        found, before = [], ""
        for unit in ("" if is_mark(i) else self._units[i] for i in ids):
            whole = unit[:1] == _SPACE and len(unit) > 1
            after_whole = before[:1] == _SPACE and len(before) > 1
            implied = unit and before and _SPACE not in (unit, before) and (whole or after_whole)
            found.append((_SPACE if implied else "") + (unit[1:] if whole else unit))
            before = unit or before
        return found

    @classmethod
    def train(cls, texts: Iterable[str], vocabulary: int) -> "Spelled":
        """Keep the most frequent characters, then the frequent words, most frequent first."""
        words, characters = Counter[str](), Counter[str]()
        count = 0
        for count, text in enumerate(texts, start=1):  # noqa: B007 (the count is used below)
            found = cls.split(text)
            if len(text) > _LONGEST:
                characters.update(chain.from_iterable(word for word in found if len(word) > _LONGEST))
                found = [word for word in found if len(word) <= _LONGEST]
            words.update(found)
            if len(words) > MOST_COUNTED:
                ranked = sorted(words.items(), key=rank)
                words = Counter(dict(ranked[: MOST_COUNTED // 2]))
                _spell(ranked[MOST_COUNTED // 2 :], characters)
        _spell(words.items(), characters)
        if not characters:
            raise DataError("There is no text to learn a vocabulary from.")
        least = max(_FEWEST, count // _SHARE)
        room = vocabulary - len(MARKS)
        letters = [unit for unit, _ in sorted(characters.items(), key=rank)]
        whole = [word for word, times in sorted(words.items(), key=rank) if word and times >= least]
        return cls([_SPACE, *letters, *(_SPACE + word for word in whole)][:room])


def _spell(words: Iterable[tuple[str, int]], characters: Counter[str]) -> None:
    """Add the characters of counted words to `characters`."""
    for word, times in words:
        for character in word:
            characters[character] += times
