"""Score a detector for `regard compare`: average precision, and the detections in a few example pictures."""

from dataclasses import replace
from pathlib import Path

from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.config import DecodingConfig
from regard.data.picture_cache import read_pictures
from regard.data.pictures import Pictures
from regard.tasks.detection.evaluation import evaluate_objects
from regard.tasks.detection.predictor import DetectionPredictor
from regard.tasks.picture_task import numbers_in
from regard.viz.image_trace import ImageTrace


def compare(folder: Path, job: Job, pictures: Pictures, _: DecodingConfig) -> TaskScores:
    """Score a variant's model on the test pictures."""
    places = numbers_in(job.sentences, pictures)
    predictor = DetectionPredictor.load(folder, job.config.training.device)
    examples = [_found(predictor, pictures, place) for place in places]
    names = predictor.labels.names
    report = evaluate_objects(predictor, pictures)
    return TaskScores(report, 0.0, predictor.model, f"{len(names):,} classes", " ".join(names), examples)


def _found(predictor: DetectionPredictor, pictures: Pictures, place: int) -> Example:
    """Return the detected objects of a picture with their boxes, as an example."""
    image = read_pictures(pictures, [place])
    (things,) = predictor.detect(image, masks=False)
    if not things:
        return Example(pictures.called(place), "", None)
    looked = predictor.look(image[0], things)
    mean = replace(looked.trace, weights=looked.trace.look()[None, None])
    boxes = tuple((thing.box,) for thing in things)
    text = ", ".join(f"{thing.name} ({thing.score:.0%})" for thing in things)
    trace = ImageTrace(mean, image[0], looked.grid, outlines=boxes)
    return Example(pictures.called(place), text, trace, looked.trace.caption())
