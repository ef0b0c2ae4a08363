"""All there is to say about a classifier and a source of pictures."""

import numpy as np

from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.errors import DataError
from regard.evaluation.report import Report, Score
from regard.tasks.image_classification.predictor import ImageClassPredictor

CHUNK = 256
"""Pictures that are held at a time."""


def evaluate_classes(predictor: ImageClassPredictor, pictures: Pictures, *, batch_size: int | None = None) -> Report:
    """Classify pictures and compare with their classes: accuracy, of all and of each class, and the loss."""
    pictures.require("label")
    if not len(pictures):
        raise DataError(f"{pictures.name} has no pictures, so there is nothing to evaluate.")
    if pictures.labels != predictor.labels.names:
        known = ", ".join(predictor.labels.names)
        raise DataError(f"The classes of {pictures.name} are not those that the model knows: {known}.")
    right = np.array([pictures.label(index) for index in range(len(pictures))])
    parts = [
        predictor.log_probs(read_pictures(pictures, range(start, min(start + CHUNK, len(pictures)))), batch_size)
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
    for place, label in enumerate(predictor.labels.names):
        if (of_it := right == place).any():
            share, count = 100 * float(hits[of_it].mean()), int(of_it.sum())
            scores.append(Score(label, share, "of this class", count, "pictures", partial=True))
    return Report(pictures.name, len(right), "nothing searched", tuple(scores), (), "", unit="pictures")
