"""Scores of detection: average precision of boxes, and overlap of masks."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regard.vision.detection.batch import Gold
from regard.vision.detection.predict import Thing


def box_overlaps(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the intersection over union of each of M boxes with each of N, given by corners."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    inner = np.prod(np.clip(high - low, 0, None), axis=-1)
    areas = [np.prod(np.clip(boxes[:, 2:] - boxes[:, :2], 0, None), axis=-1) for boxes in (a, b)]
    union = areas[0][:, None] + areas[1][None] - inner
    shares: NDArray[np.float64] = np.divide(inner, union, out=np.zeros_like(inner), where=union > 0)
    return shares


def average_precision(
    found: Sequence[Sequence[Thing]], golds: Sequence[Gold], overlap: float = 0.5
) -> tuple[float, dict[int, float]]:
    r"""Return the mean over classes of average precision, and that of each class (Everingham et al. 2010).

    .. math:: \mathrm{AP} = \sum_k (r_k - r_{k-1}) \max_{j \ge k} p_j

    over all predictions of a class, the most probable first. A prediction is right if its overlap with an object of its
    image and class is at least `overlap` and no earlier prediction has claimed that object; only the object it overlaps
    most counts. Interpolated at all points, as VOC does since 2010, not at 11. Classes in no image do not count.
    """
    labels = sorted({int(label) for gold in golds for label in gold.classes})
    each = {label: _of_class(found, golds, label, overlap) for label in labels}
    return (sum(each.values()) / len(each) if each else 0.0), each


def _of_class(found: Sequence[Sequence[Thing]], golds: Sequence[Gold], label: int, overlap: float) -> float:
    candidates = [(thing, row) for row, things in enumerate(found) for thing in things if thing.label == label]
    candidates.sort(key=lambda one: -one[0].score)
    boxes = [gold.boxes[gold.classes == label].astype(np.float64) for gold in golds]
    taken = [np.zeros(len(own), bool) for own in boxes]
    right = np.zeros(len(candidates))
    for place, (thing, row) in enumerate(candidates):
        if not len(boxes[row]):
            continue
        overlaps = box_overlaps(np.array([thing.box], np.float64), boxes[row])[0]
        best = int(overlaps.argmax())
        if overlaps[best] >= overlap and not taken[row][best]:
            taken[row][best] = True
            right[place] = 1
    return precision_area(right, sum(map(len, boxes)))


def precision_area(right: NDArray[np.float64], objects: int) -> float:
    """Return the area under the precision-recall curve, given which predictions are right, most probable first."""
    if not objects or not len(right):
        return 0.0
    hits = right.cumsum()
    precision = hits / np.arange(1, len(right) + 1)
    # The best precision at this recall or a higher one.
    precision = np.maximum.accumulate(precision[::-1])[::-1]
    return float((precision * right).sum() / objects)


def mask_overlap(found: Sequence[Sequence[Thing]], golds: Sequence[Gold]) -> float:
    """Return the mean over objects of the IoU of its mask with that of the prediction matched to it.

    That is the prediction whose box overlaps the object's most, of any class; if none overlaps, the object counts as 0.
    """
    scores = []
    for things, gold in zip(found, golds, strict=True):
        masked = [thing for thing in things if thing.mask is not None]
        assert gold.masks is not None
        if not masked:
            scores += [0.0] * len(gold.masks)
            continue
        overlaps = box_overlaps(gold.boxes.astype(np.float64), np.array([thing.box for thing in masked], np.float64))
        for mask, row in zip(gold.masks, overlaps, strict=True):
            best = int(row.argmax())
            other = masked[best].mask if row[best] > 0 else np.zeros_like(mask)
            scores.append(float((mask & other).sum() / max(1, (mask | other).sum())))
    return sum(scores) / len(scores) if scores else 0.0
