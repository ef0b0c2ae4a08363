"""All that a validation says of a detector, in one pass over images."""

from collections.abc import Sequence

import numpy as np
import torch

from regard.vision.detection.batch import Gold, pack
from regard.vision.detection.detector import Detector
from regard.vision.detection.losses import detection_loss
from regard.vision.detection.predict import Thing, detect
from regard.vision.detection.scores import average_precision, mask_overlap

AT_ONCE = 64
"""Images that are read at once."""
LEAST = 0.5
"""The score of what is held to be there, where masks are measured."""


@torch.no_grad()
def validate(
    model: Detector, golds: Sequence[Gold], names: Sequence[str], new: Sequence[bool] = ()
) -> dict[str, float]:
    """Return `valid_loss` (per object), `ap` at an overlap of 0.5 and, of a model that makes masks, their `iou`.

    Where `new` says which images have combinations that never occur in training, `ap_new` and `iou_new` are of these,
    `ap_familiar` and `iou_familiar` of the others. The model's mode is as it was afterwards.
    """
    device, training = next(model.parameters()).device, model.training
    model.eval()
    found: list[list[Thing]] = []
    lost, objects = 0.0, 0
    for start in range(0, len(golds), AT_ONCE):
        batch = pack(golds[start : start + AT_ONCE], model.config.queries).to(device)
        lost += detection_loss(model, batch).total.item()
        objects += int(batch.counts.sum())
        found += detect(model, batch.images, names, least=0.0)
    model.train(training)
    told = {"valid_loss": lost / max(1, objects), **_scores(model, found, golds)}
    parts = (("familiar", False), ("new", True)) if len(new) else ()
    for name, wanted in parts:
        at = np.flatnonzero(np.asarray(new, bool) == wanted).tolist()
        scores = _scores(model, [found[i] for i in at], [golds[i] for i in at])
        told |= {f"{score}_{name}": value for score, value in scores.items()}
    return told


def _scores(model: Detector, found: Sequence[Sequence[Thing]], golds: Sequence[Gold]) -> dict[str, float]:
    scores = {"ap": average_precision(found, golds)[0]}
    if model.segmenter is not None:
        there = [[thing for thing in things if thing.score >= LEAST] for things in found]
        scores["iou"] = mask_overlap(there, golds)
    return scores
