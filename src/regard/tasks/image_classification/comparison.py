"""Comparing classifiers: how many test pictures they get right, how fast, and what speaks for some classes."""

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.compare.scoring import Example, Tested
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.errors import ModelError
from regard.tasks.image_classification.evaluation import evaluate_classes
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.tasks.picture_task import numbers_in
from regard.vision.class_heatmaps import heat_maps
from regard.viz.image_trace import ImageTrace

BATCH = 64
"""Pictures read at once."""


class TimedPredictor(ImageClassPredictor):
    """A predictor that adds up how long it takes."""

    seconds = 0.0

    def log_probs(self, pictures: NDArray[Any], batch_size: int | None = None) -> NDArray[np.float32]:
        """Classify, and add the time that it took."""
        began = time.perf_counter()
        found = super().log_probs(pictures, batch_size)
        self.seconds += time.perf_counter() - began
        return found


def compare(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig) -> Tested:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = TimedPredictor.load(folder, job.config.training.device)
    assert isinstance(predictor, TimedPredictor)
    examples = [_explained(predictor, pictures, place) for place in places]
    predictor.log_probs(read_pictures(pictures, range(min(BATCH, len(pictures)))))
    predictor.seconds = 0.0
    report = evaluate_classes(predictor, pictures)
    names = predictor.labels.names
    return Tested(report, predictor.seconds, predictor.model, f"{len(names):,} classes", " ".join(names), examples)


def _explained(predictor: ImageClassPredictor, pictures: Pictures, place: int) -> Example:
    """Tell the most probable class, and what spoke for it."""
    image = read_pictures(pictures, [place])
    best = predictor.classify(image)[0][0]
    name = pictures.called(place)
    text, shown = f"{best.label} ({best.probability:.0%})", pictures.shown(place)
    try:
        maps = heat_maps(predictor.model, image[0], predictor.labels.names, most=1)
    except ModelError:
        return Example(name, text, None)
    if shown is None:
        return Example(name, text, None)
    cells = np.stack([each.cells / (each.cells.sum() or 1) for each in maps])
    names = [each.note for each in maps]
    return Example(name, text, ImageTrace.of(shown, names, cells), " and ".join(names))
