"""The vocabulary of a question answerer: the words of questions, and the answers."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import write_atomically
from regard.data.pictures import PictureQuestion, Pictures, Things
from regard.data.scenes import on_grid
from regard.errors import DataError, ModelError, did_you_mean
from regard.folder_files import LARGE, parse_json, read_member
from regard.vision.questions.question_words import MARKS, QuestionWords

FILE: Final = "questions.json"


@dataclass(frozen=True)
class QuestionVocabulary:
    """The words of questions, the answers in the order of a model's outputs, and kinds of questions to score by."""

    words: QuestionWords
    answers: tuple[str, ...]
    kinds: tuple[str, ...]

    @classmethod
    def of(
        cls, train: Sequence[Sequence[PictureQuestion]], valid: Sequence[Sequence[PictureQuestion]] = ()
    ) -> "QuestionVocabulary":
        """Collect the words of a training corpus, sorted, and the answers and kinds also of the validation corpus.

        Answers that occur only in validation can thus be scored, as wrong.
        """
        known = [one for some in train for one in some]
        flat = [*known, *(one for some in valid for one in some)]
        answers = sorted({one.answer for one in flat})
        return cls(
            QuestionWords.of(one.question for one in known), tuple(answers), tuple({one.kind: 0 for one in flat})
        )

    def check(self, question: str) -> None:
        """Raise a DataError for a question with unknown words."""
        unknown = self.words.unknown(question)
        if unknown:
            hints = "".join(did_you_mean(word, self.words.words[len(MARKS) :]) for word in unknown)
            named = ", ".join(map(repr, unknown))
            which = "a word" if len(unknown) == 1 else "words"
            raise DataError(f"The question has {which} that the model does not know: {named}.{hints}")
        self.words.encode(question)

    def save(self, folder: Path) -> None:
        """Write the vocabulary to a model folder."""
        record = {"words": self.words.words[len(MARKS) :], "answers": self.answers, "kinds": self.kinds}
        write_atomically(folder / FILE, json.dumps(record, ensure_ascii=False, indent=2).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> "QuestionVocabulary":
        """Read what `save` wrote."""
        path = folder / FILE
        try:
            record = parse_json(read_member(folder, FILE, LARGE))
            words, answers, kinds = (_texts(record[name]) for name in ("words", "answers", "kinds"))
            return cls(QuestionWords(words), answers, kinds)
        except FileNotFoundError:
            raise ModelError(f"{path} is missing: {folder} is not a question answerer, or is incomplete.") from None
        except OSError as error:
            raise ModelError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError, KeyError, DataError):
            raise ModelError(f"{path} is damaged. Copy the model folder again, or train anew.") from None


def questions_of(pictures: Pictures) -> list[tuple[PictureQuestion, ...]]:
    """Return the questions about each picture of a source."""
    return [*pictures.every("questions")]


def gold_cells(things: Things, asked: Sequence[PictureQuestion], grid: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the cells of a square grid with objects that decide the answer: questions × cells.

    A row is all False if no object decides, as when the question is about an object that is not there.
    """
    covered = covered_cells(things, grid)
    rows = [covered[list(one.things)].any(axis=0) for one in asked]
    return np.stack(rows) if rows else np.zeros((0, covered.shape[1]), np.bool_)


def covered_cells(things: Things, grid: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the cells of a square grid that each object covers: objects × cells, row by row."""
    return np.asarray(on_grid(things.masks, grid[0]).reshape(len(things.masks), -1) > 0)


def covered_in_each(pictures: Pictures, grid: tuple[int, int]) -> NDArray[np.bool_]:
    """Return the cells of a square grid that the objects of each picture cover: pictures × objects × cells."""
    cells = [covered_cells(things, grid) for things in pictures.every("objects")]
    covered = np.zeros((len(cells), max(map(len, cells)), grid[0] * grid[1]), np.bool_)
    for row, some in zip(covered, cells, strict=True):
        row[: len(some)] = some
    return covered


def named_things(asked: Sequence[PictureQuestion], tokens: int, things: int) -> NDArray[np.bool_]:
    """Return whether a token names an object: questions × tokens × objects.

    The first token is the question token, which names nothing.
    """
    named = np.zeros((len(asked), tokens, things), np.bool_)
    for row, one in zip(named, asked, strict=True):
        for token, some in enumerate(one.named, start=1):
            row[token, list(some)] = True
    return named


def _texts(values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise TypeError
    "".join(values).encode()  # half of a surrogate pair, which JSON can spell, could not be printed
    return tuple(values)
