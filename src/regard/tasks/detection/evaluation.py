"""All there is to say about a detector and a source of pictures: average precision of boxes, overlap of masks."""

from dataclasses import replace

import numpy as np

from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.errors import DataError
from regard.evaluation.report import Report, Score
from regard.tasks.detection.predictor import LEAST, DetectionPredictor
from regard.vision.detection.average_precision import average_precision, mask_overlap
from regard.vision.detection.batch import Gold
from regard.vision.detection.predict import Thing

CHUNK = 256
"""Pictures that are held at a time."""
STRICT = 0.75
"""The overlap of boxes that is asked for where more than 0.5 is."""


def evaluate_objects(predictor: DetectionPredictor, pictures: Pictures, *, batch_size: int | None = None) -> Report:
    """Find the things of pictures: average precision of all and of each class, and how much masks overlap.

    Scores of pictures with combinations that training has seen, and with others, are told apart where there are both.
    """
    pictures.require("objects")
    if not len(pictures):
        raise DataError(f"{pictures.name} has no pictures, so there is nothing to evaluate.")
    if pictures.labels != predictor.labels.names:
        known = ", ".join(predictor.labels.names)
        raise DataError(f"The classes of {pictures.name} are not those that the model knows: {known}.")
    found, golds, new = list[list[Thing]](), list[Gold](), list[bool]()
    for start in range(0, len(pictures), CHUNK):
        rows = range(start, min(start + CHUNK, len(pictures)))
        images = read_pictures(pictures, rows)
        found += predictor.detect(images, least=0.0, batch_size=batch_size)
        for image, things in zip(images, map(pictures.objects, rows), strict=True):
            golds.append(Gold(image, things.classes, things.boxes, things.masks))
            new.append(things.held_out)
    scores = _scores(found, golds, "") + _by_class(predictor, found, golds)
    for part, wanted in ((" familiar", False), (" held-out", True)) if any(new) else ():
        at = np.flatnonzero(np.array(new) == wanted).tolist()
        own = _scores([found[i] for i in at], [golds[i] for i in at], part) if at else []
        scores += [replace(score, partial=True) for score in own]
    return Report(pictures.name, len(golds), "nothing searched", tuple(scores), (), "", unit="pictures")


def _scores(found: list[list[Thing]], golds: list[Gold], part: str) -> list[Score]:
    count = sum(len(gold.classes) for gold in golds)
    told = []
    for overlap in (LEAST, STRICT):
        how = f"mean over classes of average precision, boxes overlapping by {overlap}, interpolated at all points"
        value, _ = average_precision(found, golds, overlap)
        told.append(Score(f"AP@{overlap}{part}", value, how, count, "objects", rate=True))
    if any(thing.mask is not None for things in found for thing in things):
        there = [[thing for thing in things if thing.score >= LEAST] for things in found]
        how = f"mean over objects of the overlap of their masks with what was found there, scores from {LEAST} on"
        told.append(Score(f"mask IoU{part}", mask_overlap(there, golds), how, count, "objects", rate=True))
    return told


def _by_class(predictor: DetectionPredictor, found: list[list[Thing]], golds: list[Gold]) -> list[Score]:
    _, each = average_precision(found, golds)
    counts = {label: sum(int((gold.classes == label).sum()) for gold in golds) for label in each}
    names = predictor.labels.names
    return [
        Score(names[label], each[label], "AP@0.5", counts[label], "objects", rate=True, partial=True) for label in each
    ]
