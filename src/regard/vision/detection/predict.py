"""A detector's predictions for images: objects with class, score, box in pixels, and mask."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.shapes import Tensor
from regard.vision.detection.boxes import to_corners
from regard.vision.detection.detector import Detector
from regard.vision.pixels import from_pixels


class Thing(NamedTuple):
    """A detected object."""

    name: str
    """Name of its class."""
    label: int
    """Index of its class."""
    score: float
    """Probability of the class."""
    box: tuple[float, float, float, float]
    """Left, top, right, bottom, in pixels, clipped to the image."""
    mask: NDArray[np.bool_] | None
    """Mask, rows × columns."""
    query: int
    """Index of the query that found it, for its attention weights."""


@torch.no_grad()
def detect(
    model: Detector, images: Tensor, names: Sequence[str], least: float = 0.5, masks: bool = True
) -> list[list[Thing]]:
    """Detect objects in uint8 images B×h×w×C, the most probable first; those with a score below `least` are left out.

    For average precision take them all (`least=0`). The model's mode is not changed: call `eval` first.
    """
    pixels = from_pixels(images)
    found = model(pixels)
    scores, labels = found.logits[:, -1].float().softmax(dim=-1)[..., :-1].max(dim=-1)  # B N
    height, width = images.shape[1:3]
    scale = torch.tensor([width, height, width, height], dtype=torch.float32, device=images.device)
    corners = to_corners(found.boxes[:, -1].float()).clamp(0, 1) * scale
    rows, which = (scores >= least).nonzero(as_tuple=True)
    drawn: list[NDArray[np.bool_] | None] = [None] * len(rows)
    if masks and model.segmenter is not None:
        drawn = list((model.segment(pixels, found, rows, which) > 0).cpu().numpy())
    things: list[list[Thing]] = [[] for _ in images]
    fields = scores[rows, which].tolist(), labels[rows, which].tolist(), corners[rows, which].tolist()
    for row, query, mask, score, label, box in zip(rows.tolist(), which.tolist(), drawn, *fields, strict=True):
        things[row].append(Thing(names[label], label, score, tuple(box), mask, query))
    return [sorted(found, key=lambda thing: -thing.score) for found in things]
