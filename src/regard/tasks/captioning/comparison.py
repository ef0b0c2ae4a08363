"""Score a captioner for `regard compare`: captions, speed, and the attention over a few example pictures."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import PictureInput, Pictures
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor, PictureCaption
from regard.tasks.picture_task import numbers_in
from regard.viz.image_trace import ImageTrace

BATCH = 64
"""Batch size, in pictures."""


class TimedPredictor(CaptionPredictor):
    """A predictor that measures its time."""

    seconds = 0.0

    def caption(self, pictures: PictureInput, **options: Any) -> list[PictureCaption]:
        """Caption pictures and add the time taken to `seconds`."""
        began = time.perf_counter()
        found = super().caption(pictures, **options)
        self.seconds += time.perf_counter() - began
        return found


def compare(folder: Path, job: Job, pictures: Pictures, options: DecodingConfig) -> TaskScores:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = TimedPredictor.load(folder, job.config.training.device)
    assert isinstance(predictor, TimedPredictor)
    shown = read_pictures(pictures, places) if places else None
    described = [] if shown is None else predictor.caption(shown, options=options)
    predictor.seconds = 0.0  # that was the warm-up
    report = evaluate_captions(predictor, pictures, options=options, batch_size=BATCH)
    shown_over = [_over(pictures, place, found) for place, found in zip(places, described, strict=True)]
    target = predictor.tokenizers.target
    knows = f"{target.kind}, {target.size:,} entries"
    return TaskScores(report, predictor.seconds, predictor.model, knows, predictor.tokenizers.fingerprint, shown_over)


def _over(pictures: Pictures, place: int, found: PictureCaption) -> Example:
    trace, image, name = found.best.attention, pictures.shown(place), pictures.called(place)
    if image is None or not trace.weights.shape[0]:
        return Example(name, found.text, None, f"score {found.best.score:.2f}")
    mean = replace(trace, weights=trace.look()[None, None], candidates=())
    return Example(name, found.text, ImageTrace(mean, image, found.grid), trace.caption())
