"""Images with the objects that are in them."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import DataError
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.detection.boxes import from_corners
from regard.vision.detection.matching import check_room


class Gold(NamedTuple):
    """An image and what is in it."""

    image: NDArray[np.uint8]
    """Rows × columns × channels."""
    classes: NDArray[np.int64]
    boxes: NDArray[np.int64]
    """Objects × (left, top, right, bottom), in pixels; right and bottom lie just beyond."""
    masks: NDArray[np.bool_] | None = None
    """Objects × rows × columns."""


class ObjectBatch(NamedTuple):
    """Some images, and M objects for each, of which the first `counts` are real."""

    images: Tensor
    """uint8, B×h×w×C: `from_pixels` reads them where they are."""
    classes: Int[Tensor, "B M"]
    boxes: Float[Tensor, "B M 4"]
    """Centre x, centre y, width and height, from 0 to 1."""
    masks: Bool[Tensor, "B M h w"] | None
    counts: Int[Tensor, " B"]
    count: int  # type: ignore[assignment] # a tuple's own `count` is nobody's here
    """Objects in all, at least 1: what summed losses are divided by."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is: of its images, and for how many objects there is room."""
        return (*self.images.shape, self.classes.shape[1])

    def tensors(self) -> list[Tensor]:
        """Return what there is on a device."""
        own = [self.images, self.classes, self.boxes, self.counts]
        return own if self.masks is None else [*own, self.masks]

    def to(self, device: torch.device | str) -> "ObjectBatch":
        """Copy the tensors to a device; to a GPU the copies are under way when this returns, if they were `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "ObjectBatch":
        """Copy the tensors to memory that a GPU can copy from by itself."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "ObjectBatch":
        return ObjectBatch(
            change(self.images),
            change(self.classes),
            change(self.boxes),
            None if self.masks is None else change(self.masks),
            change(self.counts),
            self.count,
        )


def pack(golds: Sequence[Gold], queries: int, room: int = 0) -> ObjectBatch:
    """Make a batch of images of one size; `room` objects at least are padded to, so that shapes are few."""
    sizes = {gold.image.shape for gold in golds}
    if len(sizes) != 1:
        shapes = " and ".join("×".join(map(str, shape)) for shape in sorted(sizes)[:2]) or "none"
        raise DataError(f"Images of a batch must be of one size, got {shapes}: give them all the same data pixels.")
    counts = [len(gold.classes) for gold in golds]
    most = max(*counts, room, 1)
    check_room(max(counts), queries)
    height, width, _ = sizes.pop()
    classes = np.zeros((len(golds), most), np.int64)
    corners = np.zeros((len(golds), most, 4), np.float32)
    masked = all(gold.masks is not None for gold in golds)
    masks = np.zeros((len(golds), most, height, width) if masked else (0,), np.bool_)
    for row, gold in enumerate(golds):
        classes[row, : counts[row]] = gold.classes
        corners[row, : counts[row]] = gold.boxes / np.array([width, height, width, height], np.float32)
        if masked:
            assert gold.masks is not None
            masks[row, : counts[row]] = gold.masks
    return ObjectBatch(
        torch.from_numpy(np.stack([gold.image for gold in golds])),
        torch.from_numpy(classes),
        from_corners(torch.from_numpy(corners)),
        torch.from_numpy(masks) if masked else None,
        torch.tensor(counts),
        max(1, sum(counts)),
    )
