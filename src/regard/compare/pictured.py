"""Scoring a model that reads pictures, and showing where it looks in some of them: the tasks, one function each.

What the scores are is for `regard evaluate` to say; nothing here knows their names.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.class_labels import Labels
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.data.question_vocabulary import AskedWords
from regard.data.tokenizers import Tokenizers
from regard.decoding.finder import Finder
from regard.decoding.labeller import Labeller
from regard.decoding.narrator import Described, Narrator
from regard.decoding.respondent import Respondent
from regard.errors import ConfigError, DataError, ModelError
from regard.evaluation.answered import evaluate_answers
from regard.evaluation.detected import evaluate_objects
from regard.evaluation.pictured import evaluate_captions, evaluate_classes
from regard.evaluation.report import Report
from regard.models.model_folder import learned
from regard.vision.class_heatmaps import heat_maps
from regard.viz.image_trace import ImageTrace

Vocabulary = Tokenizers | Labels | AskedWords
BATCH = 64
"""Pictures read at once."""


@dataclass(frozen=True)
class Looked:
    """What a model made of one picture, and where it looked; None where that cannot be shown."""

    text: str
    trace: ImageTrace | None
    about: str = ""


@dataclass(frozen=True)
class Seen:
    """What a model made of the test pictures."""

    report: Report
    seconds: float
    """Time that the model took, without that of making pictures ready; 0 where that cannot be told."""
    model: nn.Module
    vocabulary: Vocabulary
    looks: list[Looked]


def score_pictures(folder: Path, job: Job, pictures: Pictures, options: DecodingConfig) -> dict[str, Any]:
    """Score a model, and return all that is kept of it, as plain dicts and lists."""
    task = job.config.model.task
    if task not in TASKS:
        raise ConfigError(f"Models with model.task={task} cannot be compared; those of {', '.join(TASKS)} can.")
    places = numbers_in(job.sentences, pictures)
    seen = TASKS[task](folder, job, pictures, options, places)
    entries, known_by = _known(seen.vocabulary)
    return seen.report.to_json() | {
        "unit": seen.report.unit,
        "seconds": seen.seconds,
        "translations": list(seen.report.translations),
        "looks": [_plain(pictures.called(place), look) for place, look in zip(places, seen.looks, strict=True)],
        "parameters": learned(seen.model),
        "vocabulary": entries,
        "tokenizers": known_by,
    }


def _known(vocabulary: Vocabulary) -> tuple[str, str]:
    """Tell how much a model knows by number, and what changes where that is another."""
    if isinstance(vocabulary, Tokenizers):
        return f"{vocabulary.target.kind}, {vocabulary.target.size:,} entries", vocabulary.fingerprint
    names = vocabulary.names if isinstance(vocabulary, Labels) else vocabulary.answers
    return f"{len(names):,} {'classes' if isinstance(vocabulary, Labels) else 'answers'}", " ".join(names)


def numbers_in(given: Sequence[str], pictures: Pictures) -> list[int]:
    """Read the numbers of pictures that are to be shown."""
    for text in given:
        if not text.strip().isdecimal() or int(text) >= len(pictures):
            raise DataError(
                f"{text!r} is no picture of {pictures.name}: pictures to be shown are given by their numbers, "
                f"0 to {len(pictures) - 1}."
            )
    return [int(text) for text in given]


def _plain(name: str, look: Looked) -> dict[str, Any]:
    trace = None if look.trace is None else look.trace.to_json()
    return {"source": name, "text": look.text, "trace": trace, "about": look.about}


class TimedNarrator(Narrator):
    """A narrator that looks at its watch."""

    seconds = 0.0

    def describe(self, pictures: NDArray[Any], **options: Any) -> list[Described]:
        """Describe, and add the time that it took."""
        began = time.perf_counter()
        found = super().describe(pictures, **options)
        self.seconds += time.perf_counter() - began
        return found


class TimedLabeller(Labeller):
    """A labeller that looks at its watch."""

    seconds = 0.0

    def log_probs(self, pictures: NDArray[Any], batch_size: int | None = None) -> NDArray[np.float32]:
        """Classify, and add the time that it took."""
        began = time.perf_counter()
        found = super().log_probs(pictures, batch_size)
        self.seconds += time.perf_counter() - began
        return found


def _captions(folder: Path, job: Job, pictures: Pictures, options: DecodingConfig, places: Sequence[int]) -> Seen:
    narrator = TimedNarrator.load(folder, job.config.training.device)
    assert isinstance(narrator, TimedNarrator)
    shown = read_pictures(pictures, places) if places else None
    described = [] if shown is None else narrator.describe(shown, options=options)
    narrator.seconds = 0.0  # what is slow only once has been done
    report = evaluate_captions(narrator, pictures, options=options, batch_size=BATCH)
    looks = [_over(pictures.shown(place), found) for place, found in zip(places, described, strict=True)]
    return Seen(report, narrator.seconds, narrator.model, narrator.tokenizers, looks)


def _over(image: NDArray[np.uint8] | None, found: Described) -> Looked:
    trace = found.best.attention
    if image is None or not trace.weights.shape[0]:
        return Looked(found.text, None, f"score {found.best.score:.2f}")
    mean = replace(trace, weights=trace.look()[None, None], candidates=())
    return Looked(found.text, ImageTrace(mean, image, found.grid), trace.caption())


def _classes(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig, places: Sequence[int]) -> Seen:
    labeller = TimedLabeller.load(folder, job.config.training.device)
    assert isinstance(labeller, TimedLabeller)
    looks = [_explained(labeller, pictures, place) for place in places]
    labeller.log_probs(read_pictures(pictures, range(min(BATCH, len(pictures)))))
    labeller.seconds = 0.0
    report = evaluate_classes(labeller, pictures)
    return Seen(report, labeller.seconds, labeller.model, labeller.labels, looks)


def _explained(labeller: Labeller, pictures: Pictures, place: int) -> Looked:
    """Tell the most probable class, and what spoke for it."""
    image = read_pictures(pictures, [place])
    best = labeller.classify(image)[0][0]
    text, shown = f"{best.label} ({best.probability:.0%})", pictures.shown(place)
    try:
        maps = heat_maps(labeller.model, image[0], labeller.labels.names, most=1)
    except ModelError:
        return Looked(text, None)
    if shown is None:
        return Looked(text, None)
    cells = np.stack([each.cells / (each.cells.sum() or 1) for each in maps])
    names = [each.note for each in maps]
    return Looked(text, ImageTrace.of(shown, names, cells), " and ".join(names))


def _answers(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig, places: Sequence[int]) -> Seen:
    respondent = Respondent.load(folder, job.config.training.device)
    looks = [_answered(respondent, pictures, place) for place in places]
    return Seen(evaluate_answers(respondent, pictures), 0.0, respondent.model, respondent.words, looks)


def _answered(respondent: Respondent, pictures: Pictures, place: int) -> Looked:
    """Answer the first question about a picture."""
    asked = pictures.questions(place)[:1]
    if not asked:
        return Looked("", None)
    ((found,),) = respondent.answer(read_pictures(pictures, [place]), [[asked[0].question]], look=True)
    trace, shown = found.trace(), pictures.shown(place)
    text = f"{found.question}? {found.text}"
    if shown is None or not trace.weights.shape[0]:
        return Looked(text, None)
    mean = replace(trace, weights=trace.look()[None, None])
    return Looked(text, ImageTrace(mean, shown, found.grid), trace.caption())


def _objects(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig, places: Sequence[int]) -> Seen:
    finder = Finder.load(folder, job.config.training.device)
    looks = [_found(finder, pictures, place) for place in places]
    return Seen(evaluate_objects(finder, pictures), 0.0, finder.model, finder.labels, looks)


def _found(finder: Finder, pictures: Pictures, place: int) -> Looked:
    """Name the things of a picture, with their boxes."""
    image = read_pictures(pictures, [place])
    (things,) = finder.find(image, masks=False)
    if not things:
        return Looked("", None)
    looked = finder.look(image[0], things)
    mean = replace(looked.trace, weights=looked.trace.look()[None, None])
    boxes = tuple((thing.box,) for thing in things)
    text = ", ".join(f"{thing.name} ({thing.score:.0%})" for thing in things)
    return Looked(text, ImageTrace(mean, image[0], looked.grid, outlines=boxes), looked.trace.caption())


TASKS: Mapping[str, Callable[[Path, Job, Pictures, DecodingConfig, Sequence[int]], Seen]] = {
    "write": _captions,
    "classify": _classes,
    "answer": _answers,
    "detect": _objects,
}
"""What is made of pictures, and how that is scored."""
