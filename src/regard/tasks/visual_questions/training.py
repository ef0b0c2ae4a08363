"""What a model that answers questions learns from and is scored on: pictures on disk, and what is asked about them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import Config, TrainingConfig
from regard.data.array_cache import ArrayCache, Arrays
from regard.data.batching import PICTURE, BatchOrder, draw_each
from regard.data.picture_cache import PictureCache
from regard.data.pictures import Pictures
from regard.data.question_vocabulary import QuestionVocabulary, covered_in_each, named_things, questions_of
from regard.distributed import share
from regard.errors import ConfigError, DataError
from regard.models.model_folder import CACHE
from regard.task import BatchLoss, Rows, Say, TrainingData
from regard.tasks.picture_sources import PictureSources, guided_grid, train_pictures_again
from regard.training.auxiliary_losses import check_looks
from regard.vision.grid_positions import Grid
from regard.vision.questions.base import Answerer
from regard.vision.questions.batch import Names, Question, QuestionArrays, QuestionBatch, QuestionSet
from regard.vision.questions.scoring import QuestionScores, question_loss, score_questions

AT_ONCE = 64
"""Pictures whose questions are answered at once in a validation."""
NO_NAMES = (
    "training.guided needs to know where lies what words are names of, on a square grid of cells, and the training "
    "corpus was laid out without: set training.guided=0, or start anew with scenes."
)


class AnswerObjective:
    """The cross-entropy of answers, by a run's settings."""

    reads_with_host = False

    def __init__(self, model: Answerer, settings: TrainingConfig) -> None:
        self._model, self._settings = model, settings

    def __call__(self, batch: QuestionBatch, ratio: float = 1.0) -> BatchLoss:
        """Answer the questions of a batch."""
        return self.write(batch, None)

    def read(self, batch: QuestionBatch) -> None:
        """Read nothing ahead: all is done within `write`."""

    def write(self, batch: QuestionBatch, encoded: None, ratio: float = 1.0) -> BatchLoss:
        """Make the loss; how many answers are right is told beside it, as a part of one."""
        settings = self._settings
        guided = (settings.guided_layer, settings.guided_head) if settings.guided > 0 else None
        made = question_loss(self._model, batch, settings.label_smoothing, guided)
        beside, total = {"right": made.right.float()}, made.total
        if made.astray is not None:
            total, beside["guided_loss"] = total + settings.guided * made.astray, made.astray.detach()
        return BatchLoss(total, made.total.detach(), beside, None)

    def settle(self, reached: list[torch.Tensor]) -> None:
        """Have nothing to settle."""

    def check(self, batch: QuestionBatch) -> None:
        """Refuse to guide looks where nobody knows where to, or there are none of the layer or head."""
        settings = self._settings
        if not settings.guided > 0:
            return
        if batch.places is None:
            raise ConfigError(NO_NAMES)
        weights = self._model.see(batch.features, batch.asking, batch.mask).weights
        assert weights is not None
        check_looks(weights, settings.guided_layer, settings.guided_head)


def open_data(
    config: Config, folder: Path, sources: PictureSources, say: Say
) -> tuple[QuestionVocabulary, TrainingData]:
    """Make caches in a model folder, or take those that a resumed run made when it began."""
    train, known_by, words = _open_train(config, folder, sources, say)
    validate = None
    if sources.valid is None:
        say("No validation corpus (data.valid): the last model will be the one to use.")
    else:
        valid, other = _cached(folder, "valid", sources.valid, words, None)
        validate, known_by = AnswerValidation(valid, words.kinds), f"{known_by} {other}"
    each = config.training.asked
    order = partial(draw_order, train, config.training.batch_tokens, each, config.seed)
    batch = partial(train.chosen, each=each)
    return words, TrainingData(
        order, batch, validate, known_by, config.decoding, AnswerObjective, "questions", len, each
    )


def draw_order(train: QuestionSet, batch_tokens: int, each: int, seed: int, epoch: int) -> list[Rows]:
    """Return the batches of an epoch as numbers of questions: every picture once, and so many questions about each.

    Only raw random bits are drawn, which NumPy keeps the same from release to release.
    """
    asked = np.flatnonzero(train.asked.counts)
    order = BatchOrder(np.full(len(asked), PICTURE), np.ones(len(asked)), batch_tokens, seed).batches(epoch)
    raw = np.random.PCG64([seed % 2**64, epoch, each]).random_raw(train.count)
    starts = np.asarray(train.asked.starts)
    rows = draw_each(starts, asked[np.concatenate(order)], each, raw)
    return np.split(rows, np.cumsum([each * len(some) for some in order])[:-1])


def _open_train(
    config: Config, folder: Path, sources: PictureSources, say: Say
) -> tuple[QuestionSet, str, QuestionVocabulary]:
    pictures = sources.train
    if pictures is None:
        words = QuestionVocabulary.load(folder)
        try:
            return *_opened(folder, "train"), words
        except DataError as error:
            pictures = train_pictures_again(config, say, error)
            return *_cached(folder, "train", pictures, words, guided_grid(config)), words
    questions = questions_of(pictures)
    if not any(questions):
        raise DataError(f"Nothing is asked about the pictures of {pictures.name}: there is nothing to learn from.")
    words = sources.vocabulary or QuestionVocabulary.of(questions, questions_of(sources.valid) if sources.valid else ())
    if sources.vocabulary is not None:
        say(f"Taking weights, words and answers from {config.started_from}")
    words.save(folder)
    made, known_by = _cached(folder, "train", pictures, words, guided_grid(config))
    say(
        f"{len(made):,} training pictures, {made.count:,} questions of {len(words.words):,} words, "
        f"{len(words.answers):,} answers"
    )
    return made, known_by, words


def _cached(
    folder: Path, part: str, pictures: Pictures, words: QuestionVocabulary, grid: Grid | None
) -> tuple[QuestionSet, str]:
    origin = f"{pictures.identity()}\n{words.words.words}\n{words.answers}\n{words.kinds}"
    make = partial(_arrays, pictures, words, grid)
    asked = ArrayCache.reuse_or_build(folder / CACHE / f"questions-{part}", origin, make)
    PictureCache.reuse_or_build(folder / CACHE / f"pictures-{part}", pictures, np.asarray(asked.arrays["starts"]))
    return _opened(folder, part)


def _arrays(pictures: Pictures, words: QuestionVocabulary, grid: Grid | None) -> Arrays:
    questions = questions_of(pictures)
    plain = [[Question(*one[:4]) for one in some] for some in questions]
    arrays = asked_arrays(QuestionArrays.of(plain, words.words, words.answers, words.kinds))
    if grid is None or "objects" not in pictures.has:
        return arrays
    covered, tokens = covered_in_each(pictures, grid), arrays["tokens"].shape[1]
    named = np.concatenate([named_things(asked, tokens, covered.shape[1]) for asked in questions])
    return {**arrays, **Names.of(named, covered)._asdict()}


def asked_arrays(asked: QuestionArrays) -> Arrays:
    """Write what is asked with as few bytes as will do."""
    small = {"tokens": np.int16, "answers": np.int32, "kinds": np.int16, "held_out": np.bool_, "starts": np.int32}
    return {name: getattr(asked, name).astype(small[name]) for name in QuestionArrays._fields}


def _opened(folder: Path, part: str) -> tuple[QuestionSet, str]:
    pictures = PictureCache.open(folder / CACHE / f"pictures-{part}")
    asked = ArrayCache.open(folder / CACHE / f"questions-{part}")
    known_by = f"{pictures.fingerprint} {asked.fingerprint}"
    arrays = {name: array for name, array in asked.arrays.items() if name in QuestionArrays._fields}
    named = {name: array for name, array in asked.arrays.items() if name in Names._fields}
    names = Names(**named) if len(named) == len(Names._fields) else None
    return QuestionSet(pictures.pictures, QuestionArrays(**arrays), names=names), known_by


class AnswerValidation:
    """Scores an answerer: the mean loss of a question, and how many in a hundred are answered rightly, by kind."""

    def __init__(self, questions: QuestionSet, kinds: tuple[str, ...]) -> None:
        self._questions, self._kinds = questions, kinds

    def __call__(self, model: Answerer, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model; `check` is called between batches, to be stopped by it."""
        device = next(model.parameters()).device

        def scored(start: int) -> QuestionScores:
            pictures = np.arange(start, min(start + AT_ONCE, len(self._questions)))
            asked = self._questions.asked.counts[pictures].any()
            batches = [self._questions.batch(pictures)] if asked else []
            return score_questions(model, batches, self._kinds, device, look=False)

        scores = QuestionScores(self._kinds)
        for part in share(range(0, len(self._questions), AT_ONCE), scored, check):
            scores.include(part)
        return {name: value if name == "valid_loss" else 100 * value for name, value in scores.summary().items()}
