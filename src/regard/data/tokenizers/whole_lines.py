"""A tokenizer for the names of classes: a whole line is one token."""

from collections.abc import Sequence

from regard.data.special_tokens import MARKS
from regard.data.tokenizers.base import kinds
from regard.data.tokenizers.characters_and_words import Words


@kinds.register("lines")
class Lines(Words):
    """One id for each different line, as the target side of a classifier has them. White space is one space."""

    kind = "lines"

    @staticmethod
    def split(text: str) -> Sequence[str]:
        """Take the line as it is, but for its white space."""
        line = " ".join(text.split())
        return [line] if line else []

    @property
    def names(self) -> tuple[str, ...]:
        """The lines, the most frequent first."""
        return self._units[len(MARKS) :]
