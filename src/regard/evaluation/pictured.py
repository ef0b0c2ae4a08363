"""All there is to say about a captioner or a classifier and a source of pictures."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures, ScenePictures
from regard.decoding.finder import Finder
from regard.decoding.labeller import Labeller
from regard.decoding.narrator import Narrator
from regard.decoding.respondent import Respondent
from regard.decoding.search import in_words
from regard.errors import ConfigError, DataError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.answered import evaluate_answers
from regard.evaluation.bleu_chrf import bleu_of_captions
from regard.evaluation.detected import evaluate_objects
from regard.evaluation.error_rates import exact_match
from regard.evaluation.pointing_game import PARTS, ScenePointing
from regard.evaluation.report import Report, Score
from regard.models.model_folder import open_folder
from regard.vision.build import ANSWER, CLASSIFY, DETECT

CHUNK = 256
"""Pictures that are held at a time."""
ORDERS = (4, 3, 2, 1)


def evaluate_pictures(
    folder: Path,
    pictures: Pictures,
    *,
    options: DecodingConfig | None = None,
    batch_size: int | None = None,
    reading: Reading | None = None,
    device: str = "auto",
) -> Report:
    """Score the model of a folder on pictures by what its task is."""
    task = open_folder(folder).model.task
    if task == CLASSIFY:
        return evaluate_classes(Labeller.load(folder, device), pictures, batch_size=batch_size)
    if task == ANSWER:
        return evaluate_answers(Respondent.load(folder, device), pictures, batch_size=batch_size, reading=reading)
    if task == DETECT:
        return evaluate_objects(Finder.load(folder, device), pictures, batch_size=batch_size)
    narrator = Narrator.load(folder, device)
    return evaluate_captions(narrator, pictures, options=options, batch_size=batch_size, reading=reading)


def evaluate_captions(
    narrator: Narrator,
    pictures: Pictures,
    *,
    beam: int | None = None,
    options: DecodingConfig | None = None,
    batch_size: int | None = None,
    reading: Reading | None = None,
) -> Report:
    """Describe pictures and compare with all that is said of them: BLEU of 1 to 4 words, and captions that are right.

    Of scenes it is also told whether the model looks at what it writes of, while it is made to write all their captions
    and in its own, and all of that for scenes with familiar and with held-out combinations apart; `reading` says whose
    looks count, and which step's.
    """
    _check(pictures, "captions")
    options = options or narrator.options
    options = options if beam is None else replace(options, beam=beam)
    scenes = pictures if isinstance(pictures, ScenePictures) else None
    if reading is not None and scenes is None:
        raise ConfigError(f"Leave out --layer, --head and --shift: {pictures.name} does not tell where to look.")
    if reading is not None and narrator.config.model.attention is None:
        raise ConfigError("Leave out --layer, --head and --shift: this model has no attention to be scored.")
    texts, references, held_out = list[str](), list[tuple[str, ...]](), list[bool]()
    pointed = ScenePointing(reading)
    for start in range(0, len(pictures), CHUNK):
        rows = range(start, min(start + CHUNK, len(pictures)))
        some, said = read_pictures(pictures, rows), [pictures.captions(row) for row in rows]
        described = narrator.describe(some, options=options, batch_size=batch_size, look=scenes is not None)
        texts += [one.text for one in described]
        references += said
        if scenes is not None:
            for row, own, given in zip(rows, described, narrator.align(some, said, batch_size), strict=True):
                scene = scenes.scene(row)
                held_out.append(scene.held_out)
                pointed.add(scene, given, own)
    scores = [*_overlap(texts, references), *pointed.scores()]
    for part in PARTS:
        kept = [row for row, new in enumerate(held_out) if PARTS[new] == part]
        if kept:
            overlap = _overlap([texts[row] for row in kept], [references[row] for row in kept], (4,))
            both = (*overlap, *pointed.scores(part))
            scores += [replace(score, name=f"{score.name} {part}", partial=True) for score in both]
    return Report(pictures.name, len(texts), in_words(options), tuple(scores), (), "", tuple(texts), "pictures")


def _overlap(
    texts: Sequence[str], references: Sequence[tuple[str, ...]], orders: Sequence[int] = ORDERS
) -> list[Score]:
    scores = [bleu_of_captions(texts, references, order) for order in orders]
    return [*scores, exact_match(texts, references)]


def evaluate_classes(labeller: Labeller, pictures: Pictures, *, batch_size: int | None = None) -> Report:
    """Classify pictures and compare with their classes: accuracy, of all and of each class, and the loss."""
    _check(pictures, "label")
    if pictures.labels != labeller.labels.names:
        known = ", ".join(labeller.labels.names)
        raise DataError(f"The classes of {pictures.name} are not those that the model knows: {known}.")
    right = np.array([pictures.label(index) for index in range(len(pictures))])
    parts = [
        labeller.log_probs(read_pictures(pictures, range(start, min(start + CHUNK, len(pictures)))), batch_size)
        for start in range(0, len(pictures), CHUNK)
    ]
    log_probs = np.concatenate(parts)
    hits = log_probs.argmax(axis=1) == right
    how = "the most probable class is the right one"
    scores = [
        Score("accuracy", 100 * float(hits.mean()), how, len(right), "pictures"),
        Score(
            "loss",
            -float(log_probs[np.arange(len(right)), right].mean()),
            "mean negative log-likelihood",
            len(right),
            "pictures",
            best="low",
            rate=True,
        ),
    ]
    for place, label in enumerate(labeller.labels.names):
        if (of_it := right == place).any():
            share, count = 100 * float(hits[of_it].mean()), int(of_it.sum())
            scores.append(Score(label, share, "of this class", count, "pictures", partial=True))
    return Report(pictures.name, len(right), "nothing searched", tuple(scores), (), "", unit="pictures")


def _check(pictures: Pictures, part: str) -> None:
    pictures.require(part)
    if not len(pictures):
        raise DataError(f"{pictures.name} has no pictures, so there is nothing to evaluate.")
