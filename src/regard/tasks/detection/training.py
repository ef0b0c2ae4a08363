"""Training and validation data of a detector: cached pictures and their objects, and the loss."""

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
"""Pictures whose objects are packed at once."""


class ObjectObjective:
    """The set prediction loss, with each object matched to a query; on a GPU it needs no synchronisation."""

    reads_with_host = False

    def __init__(self, model: Detector, settings: TrainingConfig) -> None:
        self._model = model

    def __call__(self, batch: ObjectBatch, ratio: float = 1.0) -> BatchLoss:
        """Return the losses of a batch."""
        return self.write(batch, None)

    def read(self, batch: ObjectBatch) -> None:
        """Do nothing: `write` runs the whole model."""

    def write(self, batch: ObjectBatch, encoded: None, ratio: float = 1.0) -> BatchLoss:
        """Return the loss and its parts."""
        losses = detection_loss(self._model, batch)
        return BatchLoss(losses.total, losses.total.detach(), losses.beside, None)

    def settle(self, reached: list[torch.Tensor]) -> None:
        """Do nothing: there are no reward baselines."""

    def check(self, batch: ObjectBatch) -> None:
        """Do nothing: the data was checked when it was opened."""


def open_data(config: Config, folder: Path, sources: PictureSources, say: Say) -> tuple[Labels, TrainingData]:
    """Build caches in a model folder; a resumed run reuses those it built when it started."""
    train, known_by, labels = _open_train(config, folder, sources, say)
    check_room(train.most, config.model.detection.queries)
    validation = None
    if sources.valid is None:
        say("No validation corpus (data.valid): keeping the last model instead of the best.")
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
    """Pack the objects of a source's pictures, a few pictures at a time, since unpacked masks are large."""
    nothing, parts = np.zeros((1, 1, 1), np.uint8), list[Objects]()  # Gold wants an image, but packing does not use it
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
    """Return the pictures; raise a DataError if their classes are not those of the model."""
    pictures.require("objects")
    if pictures.labels != labels.names:
        known = ", ".join(labels.names)
        raise DataError(f"The classes of {pictures.name} are not those that the model knows: {known}.")
    return pictures


class ObjectValidation:
    """Scores a detector: mean loss per object, average precision of boxes, and overlap of masks."""

    def __init__(self, things: ObjectSet, labels: Labels) -> None:
        self._things, self._labels = things, labels

    def __call__(self, model: Detector, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model; `check` is called between batches and may raise to stop."""
        return validate(model, self._things, self._labels.names, check)
