"""Score an image classifier for `regard compare`: accuracy, speed, and heat maps of a few example pictures."""

import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import PictureInput, Pictures
from regard.errors import ModelError
from regard.tasks.image_classification.evaluation import evaluate_classes
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.tasks.picture_task import numbers_in
from regard.vision.class_heatmaps import heat_maps
from regard.viz.image_trace import ImageTrace

BATCH = 64
"""Batch size, in pictures."""


class TimedPredictor(ImageClassPredictor):
    """A predictor that measures its time."""

    seconds = 0.0

    def log_probs(self, pictures: PictureInput, batch_size: int | None = None) -> NDArray[np.float32]:
        """Classify pictures and add the time taken to `seconds`."""
        began = time.perf_counter()
        found = super().log_probs(pictures, batch_size)
        self.seconds += time.perf_counter() - began
        return found


def compare(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig) -> TaskScores:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = TimedPredictor.load(folder, job.config.training.device)
    assert isinstance(predictor, TimedPredictor)
    examples = [_explained(predictor, pictures, place) for place in places]
    predictor.log_probs(read_pictures(pictures, range(min(BATCH, len(pictures)))))
    predictor.seconds = 0.0
    report = evaluate_classes(predictor, pictures)
    names = predictor.labels.names
    return TaskScores(report, predictor.seconds, predictor.model, f"{len(names):,} classes", " ".join(names), examples)


def _explained(predictor: ImageClassPredictor, pictures: Pictures, place: int) -> Example:
    """Return the most probable class with its heat maps, as an example."""
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
