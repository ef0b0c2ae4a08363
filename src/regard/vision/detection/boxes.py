"""Boxes: (centre x, centre y, width, height) as fractions of the image, or corners (left, top, right, bottom)."""

import torch

from regard.shapes import Float, Tensor

SMALLEST = 1e-7
"""Lower bound of areas in divisions."""


def to_corners(boxes: Float[Tensor, "*N 4"]) -> Float[Tensor, "*N 4"]:
    """Convert centres and sizes to corners."""
    center, size = boxes[..., :2], boxes[..., 2:]
    return torch.cat([center - size / 2, center + size / 2], dim=-1)


def from_corners(corners: Float[Tensor, "*N 4"]) -> Float[Tensor, "*N 4"]:
    """Convert corners to centres and sizes."""
    low, high = corners[..., :2], corners[..., 2:]
    return torch.cat([(low + high) / 2, high - low], dim=-1)


def area(corners: Float[Tensor, "*N 4"]) -> Float[Tensor, "*N"]:
    """Return the areas of boxes; zero for an inverted box."""
    size = (corners[..., 2:] - corners[..., :2]).clamp(min=0)
    return size[..., 0] * size[..., 1]


def _shared(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return the areas of the intersection and of the union of boxes that broadcast."""
    low, high = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., 2:], b[..., 2:])
    inner = area(torch.cat([low, high], dim=-1))
    return inner, area(a) + area(b) - inner


def overlap(a: Float[Tensor, "*#N 4"], b: Float[Tensor, "*#N 4"]) -> Float[Tensor, "*N"]:
    r"""Return the intersection over union of boxes, given by corners.

    .. math:: \mathrm{IoU} = |A \cap B| / |A \cup B|
    """
    inner, union = _shared(a, b)
    return inner / union.clamp(min=SMALLEST)


def generalised_overlap(a: Float[Tensor, "*#N 4"], b: Float[Tensor, "*#N 4"]) -> Float[Tensor, "*N"]:
    r"""Return the generalised IoU of boxes, given by corners (Rezatofighi et al. 2019, algorithm 1).

    .. math:: \mathrm{GIoU} = |A \cap B| / |A \cup B| - |C \setminus (A \cup B)| / |C|

    where C is the smallest box around both. It ranges from 1 to -1, and keeps falling as boxes move apart.
    """
    inner, union = _shared(a, b)
    low, high = torch.minimum(a[..., :2], b[..., :2]), torch.maximum(a[..., 2:], b[..., 2:])
    hull = area(torch.cat([low, high], dim=-1)).clamp(min=SMALLEST)
    return inner / union.clamp(min=SMALLEST) - (hull - union) / hull
