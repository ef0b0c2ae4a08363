"""The vocabulary of questions."""

from collections import Counter
from collections.abc import Iterable, Sequence

from regard.errors import DataError

PAD, UNKNOWN, ASK = 0, 1, 2
MARKS = ("<pad>", "<unk>", "?")
"""Padding, an unknown word, and the token that starts every question, from whose state answers may be predicted."""


class QuestionWords:
    """A vocabulary of question words, in lower case and without question marks."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are those after the special tokens, in order."""
        self.words = (*MARKS, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            raise DataError("A word occurs twice in the vocabulary of questions.")

    @classmethod
    def of(cls, questions: Iterable[str], least: int = 1) -> "QuestionWords":
        """Take the words that occur at least `least` times, in alphabetical order."""
        counted = Counter(word for question in questions for word in split(question))
        return cls(sorted(word for word, count in counted.items() if count >= least))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, question: str) -> list[int]:
        """Return the ids of the question token and the words."""
        words = split(question)
        if not words:
            raise DataError(f"The question {question!r} has no words.")
        return [ASK, *(self._numbers.get(word, UNKNOWN) for word in words)]

    def labels(self, question: str) -> tuple[str, ...]:
        """Return the label of each position of an encoded question, for attention pictures."""
        return (MARKS[ASK], *split(question))

    def unknown(self, question: str) -> tuple[str, ...]:
        """Return the words of a question that are not in the vocabulary."""
        return tuple(word for word in split(question) if word not in self._numbers)


def split(question: str) -> list[str]:
    """Split a question into words, in lower case and without question marks."""
    return question.lower().replace("?", " ").split()
