"""What a small model cannot do, in numbers: for the pages of mechanisms that see."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.data.pictures import Pictures
from regard.evaluation.report import Report
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.tasks.detection.predictor import LEAST, DetectionPredictor
from regard.tasks.visual_questions.predictor import AnswerPredictor
from regard.vision.detection.average_precision import box_overlaps
from regard.vision.detection.predict import Thing

OVERLAP = 0.5
"""Of boxes that are of the same thing."""


def limits(reader: Any, report: Report, pictures: Pictures) -> dict[str, float]:
    """Return what shows the limits of a model: what it answers right, which things it misses, where it looks."""
    if isinstance(reader, AnswerPredictor):
        return {score.name: round(score.value, 1) for score in report.scores if score.name in reader.words.kinds}
    if isinstance(reader, CaptionPredictor):
        return {"new": round(report["pointing held-out"].value, 1)}
    if isinstance(reader, DetectionPredictor):
        found = reader.detect(pictures.images(range(len(pictures))), LEAST, masks=False)
        counts = [_count(things, pictures, row) for row, things in enumerate(found)]
        return {name: sum(one[name] for one in counts) for name in counts[0]}
    return {}


def _count(found: list[Thing], pictures: Pictures, row: int) -> dict[str, int]:
    """Count the things of a picture, those that were missed, those within another, and what was found twice."""
    gold = pictures.objects(row)
    boxes, labels = gold.boxes.astype(np.float64), np.array([thing.label for thing in found], np.int64)
    got = np.array([thing.box for thing in found], np.float64).reshape(-1, 4)
    same = gold.classes[:, None] == labels
    hit = ((box_overlaps(boxes, got) >= OVERLAP) & same).any(axis=1)
    within = _within(boxes)
    double = (box_overlaps(got, got) >= OVERLAP) & (labels[:, None] == labels)
    return {
        "things": len(boxes),
        "missed": int((~hit).sum()),
        "within": int(within.sum()),
        "within_found": int((within & hit).sum()),
        "twice": int(np.triu(double, 1).any(axis=0).sum()),
    }


def _within(boxes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Tell of each box whether it lies within another."""
    low, high = boxes[:, None, :2] >= boxes[None, :, :2], boxes[:, None, 2:] <= boxes[None, :, 2:]
    inside = low.all(axis=-1) & high.all(axis=-1) & ~np.eye(len(boxes), dtype=bool)
    return np.asarray(inside.any(axis=1))
