"""Images with the objects that are in them."""

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

    source: Tensor
    """uint8, B×h×w×C: `from_pixels` reads them where they are."""
    classes: Int[Tensor, "B M"]
    boxes: Float[Tensor, "B M 4"]
    """Centre x, centre y, width and height, from 0 to 1."""
    masks: Bool[Tensor, "B M h w"] | None
    counts: Int[Tensor, " B"]
    count: int  # type: ignore[assignment] # a tuple's own `count` is nobody's here
    """Objects in all, at least 1: what summed losses are divided by."""
    rows: NDArray[Any]
    """Which images these are."""

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is: of its images, and for how many objects there is room."""
        return (*self.source.shape, self.classes.shape[1])

    def tensors(self) -> list[Tensor]:
        """Return what there is on a device."""
        own = [self.source, self.classes, self.boxes, self.counts]
        return own if self.masks is None else [*own, self.masks]

    def regular(self, batch_tokens: int, longest: int) -> "ObjectBatch":
        """Return it as it is: all but an epoch's last are of one shape."""
        return self

    def to(self, device: torch.device | str) -> "ObjectBatch":
        """Copy the tensors to a device; to a GPU the copies are under way when this returns, if they were `pinned`."""
        later = torch.device(device).type == "cuda"
        return self._map(lambda tensor: tensor.to(device, non_blocking=later))

    def pinned(self) -> "ObjectBatch":
        """Copy the tensors to memory that a GPU can copy from by itself."""
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
    """All that is in some images, as numbers, with room for M objects in each."""

    counts: NDArray[Any]
    """Objects of each image."""
    classes: NDArray[Any]
    """Images × M."""
    boxes: NDArray[Any]
    """Images × M × (left, top, right, bottom), in pixels."""
    masks: NDArray[Any]
    """Images × M × rows × columns, eight columns to a byte; empty where there are none."""
    held_out: NDArray[Any]
    """Which images have combinations that training never saw."""

    @classmethod
    def of(cls, golds: Sequence[Gold], room: int = 0, held_out: Sequence[bool] = ()) -> "Objects":
        """Lay objects out, with room for as many as any image has, and `room` at least."""
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
        """Put what is in images after what is in others, with room for the most of all."""
        most = max(part.classes.shape[1] for part in parts)
        wide = {
            name: [_with_room(getattr(part, name), most) for part in parts] for name in ("classes", "boxes", "masks")
        }
        every = {name: np.concatenate([getattr(part, name) for part in parts]) for name in ("counts", "held_out")}
        return cls(**every, **{name: np.concatenate(some) for name, some in wide.items()})


def _with_room(array: NDArray[Any], most: int) -> NDArray[Any]:
    """Add room for objects along the second axis; there is none where there are no masks."""
    if array.ndim == 1:
        return array
    return np.pad(array, [(0, 0), (0, most - array.shape[1]), *[(0, 0)] * (array.ndim - 2)])


class ObjectSet:
    """Images of one size with their objects, ready to be put into batches."""

    def __init__(self, sources: NDArray[Any], objects: Objects) -> None:
        self.sources, self.objects = sources, objects

    @classmethod
    def of(cls, golds: Sequence[Gold], room: int = 0, held_out: Sequence[bool] = ()) -> "ObjectSet":
        """Make one of images one by one."""
        sizes = {gold.image.shape for gold in golds}
        if len(sizes) != 1:
            shapes = " and ".join("×".join(map(str, shape)) for shape in sorted(sizes)[:2]) or "none"
            raise DataError(f"Images of a batch must be of one size, got {shapes}: give them all the same data pixels.")
        return cls(np.stack([gold.image for gold in golds]), Objects.of(golds, room, held_out))

    def __len__(self) -> int:
        return len(self.sources)

    @property
    def most(self) -> int:
        """How many objects an image has at most."""
        return int(self.objects.counts.max(initial=0))

    def count(self, rows: NDArray[Any]) -> int:
        """Return how many objects some images have, at least 1: what summed losses are divided by."""
        return max(1, int(self.objects.counts[rows].sum()))

    def batch(self, rows: NDArray[Any]) -> ObjectBatch:
        """Put some images together."""
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
        """Return some images one by one, with what is in them."""
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
    """Make a batch of images of one size; `room` objects at least are padded to, so that shapes are few."""
    every = ObjectSet.of(golds, room)
    check_room(every.most, queries)
    return every.batch(np.arange(len(golds)))
