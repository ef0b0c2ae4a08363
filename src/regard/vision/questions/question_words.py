"""The words of questions, by number."""

from collections import Counter
from collections.abc import Iterable, Sequence

from regard.errors import DataError

PAD, UNKNOWN, ASK = 0, 1, 2
MARKS = ("<pad>", "<unk>", "?")
"""Padding, a word that is not known, and the mark that stands before every question: what answers may be read from."""


class QuestionWords:
    """A vocabulary of the words of questions, without capitals and question marks."""

    def __init__(self, words: Sequence[str]) -> None:
        """`words` are those beside the marks, in their order."""
        self.words = (*MARKS, *words)
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            raise DataError("A word stands twice in the vocabulary of questions.")

    @classmethod
    def of(cls, questions: Iterable[str], least: int = 1) -> "QuestionWords":
        """Take the words that occur at least so often, by the alphabet."""
        counted = Counter(word for question in questions for word in split(question))
        return cls(sorted(word for word, count in counted.items() if count >= least))

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, question: str) -> list[int]:
        """Return the numbers of the mark and of the words."""
        words = split(question)
        if not words:
            raise DataError(f"The question {question!r} has no words.")
        return [ASK, *(self._numbers.get(word, UNKNOWN) for word in words)]

    def labels(self, question: str) -> tuple[str, ...]:
        """Return what stands at each place of an encoded question, for pictures of where its words look."""
        return (MARKS[ASK], *split(question))

    def unknown(self, question: str) -> tuple[str, ...]:
        """Return the words of a question that training never saw."""
        return tuple(word for word in split(question) if word not in self._numbers)


def split(question: str) -> list[str]:
    """Cut a question into words: without capitals, and without question marks wherever they stand."""
    return question.lower().replace("?", " ").split()
