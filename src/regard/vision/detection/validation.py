"""All that a validation says of a detector, in one pass over images."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from regard.distributed import share
from regard.models.inference_mode import inference_mode
from regard.vision.detection.average_precision import average_precision, mask_overlap
from regard.vision.detection.batch import Gold, ObjectSet
from regard.vision.detection.detector import Detector
from regard.vision.detection.losses import detection_loss
from regard.vision.detection.predict import Thing, detect

AT_ONCE = 64
"""Images that are read at once."""
LEAST = 0.5
"""The score of what is held to be there, where masks are measured."""


def validate(
    model: Detector, material: ObjectSet, names: Sequence[str], check: Callable[[], None] = lambda: None
) -> dict[str, float]:
    """Return `valid_loss` (per object), `ap` at an overlap of 0.5 and, of a model that makes masks, their `iou`.

    Where some images have combinations that never occur in training, `ap_held_out` and `iou_held_out` are of these,
    `ap_familiar` and `iou_familiar` of the others. The model's mode is as it was afterwards; `check` is called now and
    then, to be stopped by it.
    """
    device = next(model.parameters()).device
    found: list[list[Thing]] = []
    lost, objects = torch.zeros((), dtype=torch.float64, device=device), int(material.objects.counts.sum())

    def examined(start: int) -> tuple[float, list[list[Thing]]]:
        batch = material.batch(np.arange(start, min(start + AT_ONCE, len(material)))).to(device)
        loss = float(detection_loss(model, batch).total)
        return loss, detect(model, batch.source, names, least=0.0)

    with inference_mode(model):
        for loss, things in share(range(0, len(material), AT_ONCE), examined, check):
            lost += loss
            found += things
    golds = material.golds(np.arange(len(material)))
    told = {"valid_loss": float(lost) / max(1, objects), **_scores(model, found, golds)}
    new = material.objects.held_out
    for name, wanted in (("familiar", False), ("held_out", True)) if new.any() else ():
        at = np.flatnonzero(new == wanted).tolist()
        scores = _scores(model, [found[i] for i in at], [golds[i] for i in at])
        told |= {f"{score}_{name}": value for score, value in scores.items()}
    return told


def _scores(model: Detector, found: Sequence[Sequence[Thing]], golds: Sequence[Gold]) -> dict[str, float]:
    scores = {"ap": average_precision(found, golds)[0]}
    if model.segmenter is not None:
        there = [[thing for thing in things if thing.score >= LEAST] for things in found]
        scores["iou"] = mask_overlap(there, golds)
    return scores
