"""Batches of images with their objects."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import DataError
from regard.shapes import Bool, Float, Int, Tensor
from regard.vision.detection.boxes import from_corners
from regard.vision.detection.matching import check_room


class Gold(NamedTuple):
    """An image and its annotated objects."""

    image: NDArray[np.uint8]
    """Rows × columns × channels."""
    classes: NDArray[np.int64]
    boxes: NDArray[np.int64]
    """Objects × (left, top, right, bottom), in pixels; right and bottom are exclusive."""
    masks: NDArray[np.bool_] | None = None
    """Objects × rows × columns."""


class ObjectBatch(NamedTuple):
    """Images with M object slots each, of which the first `counts` are real."""

    source: Tensor
    """uint8, B×h×w×C; converted by `from_pixels` on the device."""
    classes: Int[Tensor, "B M"]
    boxes: Float[Tensor, "B M 4"]
    """Centre x, centre y, width and height, from 0 to 1."""
    masks: Bool[Tensor, "B M h w"] | None
    counts: Int[Tensor, " B"]
    count: int  # type: ignore[assignment] # hides the tuple's own `count`, which is not used
    """Number of objects in the batch, at least 1: the divisor of summed losses."""
    rows: NDArray[Any]
    """Indices of the images in their set."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the images and number of object slots; batches of one shape share a CUDA graph."""
        return (*self.source.shape, self.classes.shape[1])

    def tensors(self) -> list[Tensor]:
        """Return the tensors."""
        own = [self.source, self.classes, self.boxes, self.counts]
        return own if self.masks is None else [*own, self.masks]

    def regular(self, batch_tokens: int, longest: int) -> "ObjectBatch":
        """Return the batch unchanged: all but an epoch's last have one shape."""
        return self

    def to(self, device: torch.device | str) -> "ObjectBatch":
        """Copy the tensors to a device; asynchronously to a GPU, if they are `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "ObjectBatch":
        """Copy the tensors to page-locked memory, for asynchronous copies to a GPU."""
        return self._map(torch.Tensor.pin_memory)

    def _map(self, change: Callable[[Tensor], Tensor]) -> "ObjectBatch":
        return self._replace(
            source=change(self.source),
            classes=change(self.classes),
            boxes=change(self.boxes),
            masks=None if self.masks is None else change(self.masks),
            counts=change(self.counts),
        )


class Objects(NamedTuple):
    """The objects of many images as arrays, with M slots per image."""

    counts: NDArray[Any]
    """Number of objects in each image."""
    classes: NDArray[Any]
    """Images × M."""
    boxes: NDArray[Any]
    """Images × M × (left, top, right, bottom), in pixels."""
    masks: NDArray[Any]
    """Images × M × rows × columns, eight columns to a byte; empty without masks."""
    held_out: NDArray[Any]
    """Which images have combinations of attributes that are not in the training data."""

    @classmethod
    def of(cls, golds: Sequence[Gold], room: int = 0, held_out: Sequence[bool] = ()) -> "Objects":
        """Pack objects into arrays, with slots for the largest number in any image, and at least `room`."""
        counts = np.array([len(gold.classes) for gold in golds], np.int32)
        most = max(int(counts.max(initial=0)), room, 1)
        classes, boxes = np.zeros((len(golds), most), np.int32), np.zeros((len(golds), most, 4), np.int32)
        drawn = [gold.masks for gold in golds if gold.masks is not None]
        shape = (len(golds), most, drawn[0].shape[1], -(-drawn[0].shape[2] // 8)) if len(drawn) == len(golds) else (0,)
        masks = np.zeros(shape, np.uint8)
        for row, gold in enumerate(golds):
            classes[row, : counts[row]], boxes[row, : counts[row]] = gold.classes, gold.boxes
            if masks.size:
                assert gold.masks is not None
                masks[row, : counts[row]] = np.packbits(gold.masks, axis=-1)
        new = np.array(held_out, np.bool_) if len(held_out) else np.zeros(len(golds), np.bool_)
        return cls(counts, classes, boxes, masks, new)

    @classmethod
    def joined(cls, parts: Sequence["Objects"]) -> "Objects":
        """Concatenate the objects of several sets, with slots for the largest number of all."""
        most = max(part.classes.shape[1] for part in parts)
        wide = {
            name: [_with_room(getattr(part, name), most) for part in parts] for name in ("classes", "boxes", "masks")
        }
        every = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "held_out")}
        return cls(**every, **{name: np.concatenate(some) for name, some in wide.items()})


def _with_room(array: NDArray[Any], most: int) -> NDArray[Any]:
    """Pad the second axis to `most` object slots; an empty array of masks stays empty."""
    if array.ndim == 1:
        return array
    return np.pad(array, [(0, 0), (0, most - array.shape[1]), *[(0, 0)] * (array.ndim - 2)])


class ObjectSet:
    """Images of one size with their objects, ready for batching."""

    def __init__(self, sources: NDArray[Any], objects: Objects) -> None:
        self.sources, self.objects = sources, objects

    @classmethod
    def of(cls, golds: Sequence[Gold], room: int = 0, held_out: Sequence[bool] = ()) -> "ObjectSet":
        """Build a set from single images."""
        sizes = {gold.image.shape for gold in golds}
        if len(sizes) != 1:
            shapes = " and ".join("×".join(map(str, shape)) for shape in sorted(sizes)[:2]) or "none"
            raise DataError(f"Images of a batch must be of one size, got {shapes}: give them all the same data pixels.")
        return cls(np.stack([gold.image for gold in golds]), Objects.of(golds, room, held_out))

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def most(self) -> int:
        """Largest number of objects in an image."""
        return int(self.objects.counts.max(initial=0))

    def count(self, rows: NDArray[Any]) -> int:
        """Return how many objects some images have, at least 1: what summed losses are divided by."""
        return max(1, int(self.objects.counts[rows].sum()))

    def batch(self, rows: NDArray[Any]) -> ObjectBatch:
        """Return a batch of these images."""
        height, width = self.sources.shape[1:3]
        counts = self.objects.counts[rows].astype(np.int64)
        corners = self.objects.boxes[rows] / np.array([width, height, width, height], np.float32)
        return ObjectBatch(
            torch.from_numpy(np.ascontiguousarray(self.sources[rows])),
            torch.from_numpy(self.objects.classes[rows].astype(np.int64)),
            from_corners(torch.from_numpy(corners.astype(np.float32))),
            torch.from_numpy(self._masks(rows)) if self.objects.masks.size else None,
            torch.from_numpy(counts),
            self.count(rows),
            rows,
        )

    def golds(self, rows: NDArray[Any]) -> list[Gold]:
        """Return these images with their objects, one by one."""
        masks = self._masks(rows) if self.objects.masks.size else [None] * len(rows)
        return [
            Gold(
                self.sources[row],
                self.objects.classes[row, :count].astype(np.int64),
                self.objects.boxes[row, :count].astype(np.int64),
                None if mask is None else mask[:count],
            )
            for row, count, mask in zip(rows, self.objects.counts[rows], masks, strict=True)
        ]

    def _masks(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return np.unpackbits(self.objects.masks[rows], axis=-1, count=self.sources.shape[2]).view(np.bool_)


def pack(golds: Sequence[Gold], queries: int, room: int = 0) -> ObjectBatch:
    """Build a batch from images of one size, padded to at least `room` objects, to keep shapes few."""
    every = ObjectSet.of(golds, room)
    check_room(every.most, queries)
    return every.batch(np.arange(len(golds)))
