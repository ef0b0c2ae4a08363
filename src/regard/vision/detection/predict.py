"""What a detector says of images: objects with class, score, box in pixels, and mask."""

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
    """An object that was found."""

    name: str
    """Of its class."""
    label: int
    """Its class."""
    score: float
    """How probable the class is."""
    box: tuple[float, float, float, float]
    """Left, top, right, bottom, in pixels, within the image."""
    mask: NDArray[np.bool_] | None
    """Its pixels, rows × columns."""
    query: int
    """Which query found it: whose looks are to be shown."""


@torch.no_grad()
def detect(
    model: Detector, images: Tensor, names: Sequence[str], least: float = 0.5, masks: bool = True
) -> list[list[Thing]]:
    """Find objects in uint8 images B×h×w×C, the most probable first; those below the least score are left out.

    For average precision take them all (`least=0`). The model is as its mode says: call `eval` first.
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
    told = scores[rows, which].tolist(), labels[rows, which].tolist(), corners[rows, which].tolist()
    for row, query, mask, score, label, box in zip(rows.tolist(), which.tolist(), drawn, *told, strict=True):
        things[row].append(Thing(names[label], label, score, tuple(box), mask, query))
    return [sorted(found, key=lambda thing: -thing.score) for found in things]
