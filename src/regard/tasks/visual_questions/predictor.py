"""From pictures and questions to answers: a model and its words, ready to answer and to show where it looks."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.config import Config
from regard.data.question_vocabulary import QuestionVocabulary
from regard.errors import DataError
from regard.models.inference_mode import inference_mode
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.grid_positions import Grid
from regard.vision.questions.base import Answerer
from regard.vision.questions.base import AnswererOutput as Seen
from regard.vision.questions.batch import QuestionArrays, QuestionBatch, QuestionSet
from regard.vision.questions.scoring import Answer, looked_at, predict
from regard.viz.trace import AttentionTrace

AT_ONCE = 64
"""Pictures whose questions are answered at once, unless it is said how many."""


@dataclass(frozen=True, eq=False)
class QuestionAnswer:
    """What was answered to one question."""

    question: str
    said: Answer
    words: tuple[str, ...]
    """What looked, each at the image: the words of the question, its mark first, or the whole question as one."""

    @property
    def text(self) -> str:
        """The answer."""
        return self.said.answer

    @property
    def best(self) -> tuple[tuple[str, float], ...]:
        """The most probable answers with their probabilities, best first."""
        return ((self.said.answer, self.said.probability), *self.said.others)

    @property
    def grid(self) -> Grid:
        """Rows and columns of the cells."""
        return self.said.grid

    def trace(self) -> AttentionTrace:
        """Return where was looked: a source token for each cell, row by row, a target token for each word that looked.

        The last is the answer: where all words together looked.
        """
        assert self.said.weights is not None
        weights = self.said.weights  # T L H S
        rows = weights.permute(1, 2, 0, 3)
        together = weights.mean(dim=0)[:, :, None]
        own = rows.new_zeros(*rows.shape[:2], 0, rows.shape[3]) if rows.shape[2] == 1 else rows
        every = np.concatenate((own.numpy(), together.numpy()), axis=2)
        cells = tuple(f"{row},{column}" for row in range(self.grid[0]) for column in range(self.grid[1]))
        words = () if rows.shape[2] == 1 else self.words
        return AttentionTrace(cells, (*words, self.text), np.ascontiguousarray(every, dtype=np.float32), (), None)


class AnswerPredictor:
    """A model that answers questions, ready to be used."""

    def __init__(self, model: Answerer, words: QuestionVocabulary, config: Config) -> None:
        self.model, self.words, self.config = model, words, config

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "AnswerPredictor":
        """Read the folder of a model that answers questions."""
        return cls(*open_model(Path(folder), device, BY_NAME["visual_questions"]))

    def see(self, batch: QuestionBatch, look: bool) -> Seen:
        """Answer a batch of questions, and tell where was looked; the model is as its mode says."""
        here = batch.to(next(self.model.parameters()).device)
        return self.model.see(here.features, here.asking, here.mask, look)

    def answer(
        self,
        pictures: NDArray[Any],
        questions: Sequence[Sequence[str]],
        *,
        top: int = 3,
        look: bool = False,
        batch_size: int | None = None,
    ) -> list[list[QuestionAnswer]]:
        """Answer the questions about each picture: pixels B×h×w×C, or features of regions B×S×D.

        A word that training never saw is refused. Without `look` there are no weights, which takes less time.
        """
        if len(pictures) != len(questions):
            raise DataError(f"There are {len(pictures)} pictures and questions about {len(questions)}.")
        for question in (one for some in questions for one in some):
            self.words.check(question)
        size, found = batch_size or AT_ONCE, list[list[QuestionAnswer]]()
        device = next(self.model.parameters()).device
        with inference_mode(self.model):
            for start in range(0, len(pictures), size):
                some = questions[start : start + size]
                if not any(some):
                    found += [[] for _ in some]
                    continue
                batch = QuestionSet(pictures[start : start + size], self._asked(some)).batch(np.arange(len(some)))
                said = iter(predict(self.model, batch.to(device), self.words.answers, look, top))
                found += [
                    [QuestionAnswer(one, next(said), self.words.words.labels(one)) for one in each] for each in some
                ]
        return found

    def _asked(self, questions: Sequence[Sequence[str]]) -> QuestionArrays:
        tokens = [self.words.words.encode(one) for some in questions for one in some]
        padded = np.zeros((len(tokens), max(map(len, tokens))), np.int64)
        for row, own in zip(padded, tokens, strict=True):
            row[: len(own)] = own
        nothing = np.zeros(len(tokens), np.int64)
        starts = np.cumsum([0, *(len(some) for some in questions)])
        return QuestionArrays(padded, nothing, nothing, nothing.astype(np.bool_), starts)


def peak(answered: QuestionAnswer) -> int:
    """Return the cell that all words together looked at most, in all layers and heads."""
    assert answered.said.weights is not None
    weights = answered.said.weights[None]
    return int(looked_at(weights, weights.new_ones(weights.shape[:2]).bool()).argmax())
