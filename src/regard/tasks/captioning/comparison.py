"""Comparing captioners: what they write of the test pictures, how fast, and where they look in a handful of them."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from regard.compare.scoring import Example, Tested
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.tasks.captioning.evaluation import evaluate_captions
from regard.tasks.captioning.predictor import CaptionPredictor, PictureCaption
from regard.tasks.picture_task import numbers_in
from regard.viz.image_trace import ImageTrace

BATCH = 64
"""Pictures read at once."""


class TimedPredictor(CaptionPredictor):
    """A predictor that adds up how long it takes."""

    seconds = 0.0

    def caption(self, pictures: NDArray[Any], **options: Any) -> list[PictureCaption]:
        """Describe, and add the time that it took."""
        began = time.perf_counter()
        found = super().caption(pictures, **options)
        self.seconds += time.perf_counter() - began
        return found


def compare(folder: Path, job: Job, pictures: Pictures, options: DecodingConfig) -> Tested:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = TimedPredictor.load(folder, job.config.training.device)
    assert isinstance(predictor, TimedPredictor)
    shown = read_pictures(pictures, places) if places else None
    described = [] if shown is None else predictor.caption(shown, options=options)
    predictor.seconds = 0.0  # what is slow only once has been done
    report = evaluate_captions(predictor, pictures, options=options, batch_size=BATCH)
    shown_over = [_over(pictures, place, found) for place, found in zip(places, described, strict=True)]
    target = predictor.tokenizers.target
    knows = f"{target.kind}, {target.size:,} entries"
    return Tested(report, predictor.seconds, predictor.model, knows, predictor.tokenizers.fingerprint, shown_over)


def _over(pictures: Pictures, place: int, found: PictureCaption) -> Example:
    trace, image, name = found.best.attention, pictures.shown(place), pictures.called(place)
    if image is None or not trace.weights.shape[0]:
        return Example(name, found.text, None, f"score {found.best.score:.2f}")
    mean = replace(trace, weights=trace.look()[None, None], candidates=())
    return Example(name, found.text, ImageTrace(mean, image, found.grid), trace.caption())
