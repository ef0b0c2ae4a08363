"""What a detector learns from and is scored on: pictures on disk, and what is in them."""

from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config import Config, TrainingConfig
from regard.data.array_cache import ArrayCache, Arrays
from regard.data.batching import PICTURE, BatchOrder
from regard.data.class_labels import Labels
from regard.data.picture_cache import PictureCache
from regard.data.pictures import Pictures
from regard.errors import DataError
from regard.models.model_folder import CACHE
from regard.task import BatchLoss, Say, TrainingData
from regard.tasks.picture_sources import PictureSources, train_pictures_again
from regard.vision.detection.batch import Gold, ObjectBatch, Objects, ObjectSet
from regard.vision.detection.detector import Detector
from regard.vision.detection.losses import detection_loss
from regard.vision.detection.matching import check_room
from regard.vision.detection.validation import validate

AT_ONCE = 256
"""Pictures whose objects are laid out at once."""


class ObjectObjective:
    """The loss of a set of objects, each matched with a query: on a GPU, all of it is done there."""

    reads_with_host = False

    def __init__(self, model: Detector, settings: TrainingConfig) -> None:
        self._model = model

    def __call__(self, batch: ObjectBatch, ratio: float = 1.0) -> BatchLoss:
        """Find the objects of a batch."""
        return self.write(batch, None)

    def read(self, batch: ObjectBatch) -> None:
        """Read nothing ahead: all is done within `write`."""

    def write(self, batch: ObjectBatch, encoded: None, ratio: float = 1.0) -> BatchLoss:
        """Make the loss, with its parts beside it."""
        losses = detection_loss(self._model, batch)
        return BatchLoss(losses.total, losses.total.detach(), losses.beside, None)

    def settle(self, reached: list[torch.Tensor]) -> None:
        """Have nothing to settle."""

    def check(self, batch: ObjectBatch) -> None:
        """Find nothing wrong that was not found before."""


def open_data(config: Config, folder: Path, sources: PictureSources, say: Say) -> tuple[Labels, TrainingData]:
    """Make caches in a model folder, or take those that a resumed run made when it began."""
    train, known_by, labels = _open_train(config, folder, sources, say)
    check_room(train.most, config.model.detection.queries)
    validation = None
    if sources.valid is None:
        say("No validation corpus (data.valid): the last model will be the one to use.")
    else:
        valid, other = _cached(folder, "valid", checked(sources.valid, labels))
        check_room(valid.most, config.model.detection.queries)
        validation, known_by = ObjectValidation(valid, labels), f"{known_by} {other}"
    order = BatchOrder(np.full(len(train), PICTURE), np.ones(len(train)), config.training.batch_tokens, config.seed)
    return labels, TrainingData(
        order.batches,
        train.batch,
        validation,
        known_by,
        config.decoding,
        ObjectObjective,
        unit="objects",
        count=train.count,
    )


def _open_train(config: Config, folder: Path, sources: PictureSources, say: Say) -> tuple[ObjectSet, str, Labels]:
    pictures = sources.train
    if pictures is None:
        labels = Labels.load(folder)
        try:
            return *_opened(folder, "train"), labels
        except DataError as error:
            pictures = train_pictures_again(config, say, error)
            return *_cached(folder, "train", checked(pictures, labels)), labels
    pictures.require("objects")
    if not len(pictures):
        raise DataError(f"{pictures.name} is empty: there is nothing to learn from.")
    labels = Labels(pictures.labels)
    if sources.vocabulary is not None:
        say(f"Taking weights and classes from {config.started_from}")
        checked(pictures, sources.vocabulary)
    labels.save(folder)
    made, known_by = _cached(folder, "train", pictures)
    count = int(made.objects.counts.sum())
    say(f"{len(made):,} training pictures, {count:,} objects of {labels.size} classes")
    return made, known_by, labels


def _cached(folder: Path, part: str, pictures: Pictures) -> tuple[ObjectSet, str]:
    path = folder / CACHE / f"objects-{part}"
    objects = ArrayCache.reuse_or_build(path, pictures.identity(), partial(_arrays, pictures))
    PictureCache.reuse_or_build(folder / CACHE / f"pictures-{part}", pictures, np.asarray(objects.arrays["counts"]))
    return _opened(folder, part)


def _arrays(pictures: Pictures) -> Arrays:
    return objects_of(pictures)._asdict()


def objects_of(pictures: Pictures) -> Objects:
    """Lay out what is in the pictures of a source; as they come, since masks are large before they are packed."""
    nothing, parts = np.zeros((1, 1, 1), np.uint8), list[Objects]()  # who asks for objects sees no picture
    every = pictures.every("objects")
    while some := [*islice(every, AT_ONCE)]:
        golds = [Gold(nothing, things.classes, things.boxes, things.masks) for things in some]
        parts.append(Objects.of(golds, held_out=[things.held_out for things in some]))
    return Objects.joined(parts)


def _opened(folder: Path, part: str) -> tuple[ObjectSet, str]:
    pictures = PictureCache.open(folder / CACHE / f"pictures-{part}")
    objects = ArrayCache.open(folder / CACHE / f"objects-{part}")
    known_by = f"{pictures.fingerprint} {objects.fingerprint}"
    return ObjectSet(pictures.pictures, Objects(**objects.arrays)), known_by


def checked(pictures: Pictures, labels: Labels) -> Pictures:
    """Return pictures the classes of whose objects are those that are known."""
    pictures.require("objects")
    if pictures.labels != labels.names:
        known = ", ".join(labels.names)
        raise DataError(f"The classes of {pictures.name} are not those that the model knows: {known}.")
    return pictures


class ObjectValidation:
    """Scores a detector: the mean loss of an object, average precision of boxes, and overlap of masks."""

    def __init__(self, things: ObjectSet, labels: Labels) -> None:
        self._things, self._labels = things, labels

    def __call__(self, model: Detector, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model; `check` is called between batches, to be stopped by it."""
        return validate(model, self._things, self._labels.names, check)
