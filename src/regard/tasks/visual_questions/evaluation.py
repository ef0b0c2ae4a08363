"""All there is to say about a model that answers questions and a source of pictures: by kind, and where it looked."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.data.question_vocabulary import gold_cells
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.report import Report, Score
from regard.models.inference_mode import inference_mode
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.vision.questions.batch import Question, QuestionBatch, QuestionSet
from regard.vision.questions.scoring import QuestionScores

CHUNK = 256
"""Pictures that are held at a time."""
AT_ONCE = 64
"""Pictures whose questions are answered at once, unless it is said how many."""
PARTS = (("", None), (" familiar", False), (" held-out", True))
"""Questions of combinations that training has seen, and of others."""


def evaluate_answers(
    predictor: AnswerPredictor, pictures: Pictures, *, batch_size: int | None = None, reading: Reading | None = None
) -> Report:
    """Answer all questions about pictures: accuracy of all and of each kind, of combinations familiar and held out.

    Of scenes it is also told whether the cell that was looked at most is one in which lies what decides the answer;
    `reading` says whose looks count.
    """
    pictures.require("questions")
    if not len(pictures):
        raise DataError(f"{pictures.name} has no pictures, so there is nothing to evaluate.")
    if reading is not None and predictor.config.model.attention is None:
        raise ConfigError("Leave out --layer and --head: this model has no attention to be scored.")
    model, words, chosen = predictor.model, predictor.words, reading or Reading()
    device = next(model.parameters()).device
    scores, said, chances = QuestionScores(words.kinds), list[str](), list[float]()
    with inference_mode(model):
        for batch in _batches(predictor, pictures, batch_size or AT_ONCE):
            seen = predictor.see(batch, look=batch.gold is not None)
            for what, asked, axis in (("layer", chosen.layer, 2), ("head", chosen.head, 3)):
                have = 0 if seen.weights is None else seen.weights.shape[axis]
                if have and asked is not None and not -have <= asked < have:
                    raise ConfigError(f"There is no {what} {asked}: this model has {have}, counted from 0.")
            scores.add(seen, batch.to(device), chosen.layer, chosen.head)
            said += [words.answers[place] for place in seen.logits.argmax(dim=1).tolist()]
            chances += [] if batch.gold is None else batch.gold[batch.gold.any(dim=1)].float().mean(dim=1).tolist()
    if not scores.count:
        raise DataError(f"Nothing is asked about the pictures of {pictures.name}, so there is nothing to evaluate.")
    told = (*_scores(scores, chosen, 100 * float(np.mean(chances)) if chances else 0.0),)
    return Report(pictures.name, len(pictures), "nothing searched", told, (), "", tuple(said), "pictures")


def _scores(scores: QuestionScores, reading: Reading, chance: float) -> Iterator[Score]:
    for part, new in PARTS:
        for kind in (None, *(kind for kind in scores.kinds if kind)):
            share = scores.accuracy(kind, new)
            how = f"the most probable answer is the right one{f', {kind}' if kind else ''}"
            if share.whole:
                name, some = f"{kind or 'accuracy'}{part}", bool(kind or part)
                yield Score(name, 100 * share.value, how, share.whole, "questions", partial=some)
        if (hit := scores.hit(None, new)).whole:
            how = f"attention's maximum on a cell of what decides the answer, {_whose(reading)}; chance {chance:.1f}"
            yield Score(f"pointing{part}", 100 * hit.value, how, hit.whole, "questions", partial=bool(part))
    loss = scores.summary()["valid_loss"]
    yield Score("loss", loss, "mean negative log-likelihood", scores.count, "questions", best="low", rate=True)


def _whose(reading: Reading) -> str:
    parts = (("layer", reading.layer), ("head", reading.head))
    return ", ".join(f"{what} {place}" for what, place in parts if place is not None) or "mean of all looks"


def _batches(predictor: AnswerPredictor, pictures: Pictures, size: int) -> Iterator[QuestionBatch]:
    words = predictor.words
    grid = predictor.model.encoder.stem.grid
    for start in range(0, len(pictures), CHUNK):
        rows = range(start, min(start + CHUNK, len(pictures)))
        questions = [_asked(pictures, row, grid) for row in rows]
        if any(questions):
            read = read_pictures(pictures, rows)
            yield from QuestionSet.of(read, questions, words.words, words.answers, words.kinds).batches(size)


def _asked(pictures: Pictures, index: int, grid: tuple[int, int]) -> list[Question]:
    """Return what is asked about a picture, with the cells of what decides each answer where they are known."""
    asked = pictures.questions(index)
    gold: Sequence[NDArray[Any] | None] = [None] * len(asked)
    if "objects" in pictures.has and grid[0] == grid[1]:
        gold = [*gold_cells(pictures.objects(index), asked, grid)]
    return [Question(*one[:4], cells) for one, cells in zip(asked, gold, strict=True)]
