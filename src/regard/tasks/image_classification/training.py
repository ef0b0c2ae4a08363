"""What a classifier learns from and is scored on: pictures on disk with their classes, flipped and shifted."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from regard.config import Config, TrainingConfig
from regard.data.batching import PICTURE, BatchOrder
from regard.data.class_labels import Labels
from regard.data.picture_cache import PictureCache, labels_of
from regard.data.pictures import Pictures
from regard.distributed import share
from regard.errors import ConfigError, DataError
from regard.models.model_folder import CACHE
from regard.shapes import Float, Int, Tensor
from regard.task import BatchLoss, Rows, Say, TrainingData
from regard.tasks.picture_sources import PictureSources, train_pictures_again
from regard.vision.classifier import Classifier

AT_ONCE = 512
"""Pictures that are classified at once in a validation."""


class ClassBatch(NamedTuple):
    """Pictures and their classes."""

    source: Tensor
    """Pixels B×h×w×C (uint8), or features of regions B×S×D."""
    labels: Int[Tensor, " B"]
    rows: NDArray[Any]

    @property
    def count(self) -> int:  # type: ignore[override]
        """How many pictures there are."""
        return len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """How large it is."""
        return tuple(self.source.shape)

    def to(self, device: torch.device | str) -> "ClassBatch":
        """Copy the tensors to a device."""
        later = torch.device(device).type == "cuda"
        return self._replace(
            source=self.source.to(device, non_blocking=later), labels=self.labels.to(device, non_blocking=later)
        )

    def pinned(self) -> "ClassBatch":
        """Copy the tensors to memory that a GPU can copy from by itself."""
        return self._replace(source=self.source.pin_memory(), labels=self.labels.pin_memory())

    def regular(self, batch_tokens: int, longest: int) -> "ClassBatch":
        """Return it as it is: all but an epoch's last are of one shape."""
        return self

    def tensors(self) -> list[Tensor]:
        """Return what there is on a device."""
        return [self.source, self.labels]


class ClassObjective:
    """The cross-entropy of classes, by a run's settings."""

    reads_with_host = False

    def __init__(self, model: Classifier, settings: TrainingConfig) -> None:
        self._model, self._settings = model, settings

    def __call__(self, batch: ClassBatch, ratio: float = 1.0) -> BatchLoss:
        """Classify pictures, some of them flipped and shifted."""
        return self.write(batch, None)

    def read(self, batch: ClassBatch) -> None:
        """Leave all to `write`."""

    def write(self, batch: ClassBatch, encoded: None, ratio: float = 1.0) -> BatchLoss:
        """Classify pictures, some of them flipped and shifted."""
        source = batch.source
        if source.dtype == torch.uint8:
            source = moved(source, self._settings.flip, self._settings.shift)
        logits = self._model(source).float()
        loss = functional.cross_entropy(
            logits, batch.labels, reduction="sum", label_smoothing=self._settings.label_smoothing
        )
        return BatchLoss(loss, loss.detach(), {}, None)

    def settle(self, reached: list[Tensor]) -> None:
        """Have nothing to settle."""

    def check(self, batch: ClassBatch) -> None:
        """Refuse pictures that cannot be shifted as far as was asked."""
        if batch.source.dim() == 4 and self._settings.shift >= min(batch.source.shape[1:3]):
            rows, columns = batch.source.shape[1:3]
            raise ConfigError(f"training.shift is {self._settings.shift}, but pictures have {rows} × {columns} pixels.")


def moved(pixels: Tensor, flip: bool, shift: int) -> Tensor:
    """Mirror each picture B×h×w×C half of the time, and shift it by up to so many rows and columns.

    What is shifted in is black, as the ground of Fashion-MNIST is. No number is asked of the device.
    """
    count, rows, columns = pixels.shape[:3]
    if flip:
        turned = torch.rand(count, 1, 1, 1, device=pixels.device) < 0.5
        pixels = torch.where(turned, pixels.flip(2), pixels)
    if not shift:
        return pixels
    by = torch.randint(2 * shift + 1, (2, count, 1), device=pixels.device)
    padded = functional.pad(pixels, (0, 0, shift, shift, shift, shift))
    of = torch.arange(count, device=pixels.device)[:, None, None]
    down = (torch.arange(rows, device=pixels.device) + by[0])[:, :, None]
    across = (torch.arange(columns, device=pixels.device) + by[1])[:, None, :]
    return padded[of, down, across]


def open_data(config: Config, folder: Path, sources: PictureSources, say: Say) -> tuple[Labels, TrainingData]:
    """Make caches in a model folder, or take those that a resumed run made when it began."""
    train, labels = _open_train(config, folder, sources, say)
    validate, known_by = None, train.fingerprint
    if sources.valid is None:
        say("No validation corpus (data.valid): the last model will be the one to use.")
    else:
        wanted = labels_of(_checked(sources.valid, labels))
        valid = PictureCache.reuse_or_build(folder / CACHE / "pictures-valid", sources.valid, wanted)
        validate, known_by = ClassValidation(valid), f"{known_by} {valid.fingerprint}"
    order = BatchOrder(np.full(len(train), PICTURE), np.ones(len(train)), config.training.batch_tokens, config.seed)
    batch = partial(make_class_batch, train)
    return labels, TrainingData(
        order.batches, batch, validate, known_by, config.decoding, ClassObjective, unit="pictures", count=len
    )


def make_class_batch(cache: PictureCache, rows: Rows) -> ClassBatch:
    """Gather pictures and their classes."""
    labels = torch.from_numpy(cache.numbers[rows].astype(np.int64))
    return ClassBatch(torch.from_numpy(np.ascontiguousarray(cache.pictures[rows])), labels, np.asarray(rows))


def _open_train(config: Config, folder: Path, sources: PictureSources, say: Say) -> tuple[PictureCache, Labels]:
    path, pictures = folder / CACHE / "pictures-train", sources.train
    if pictures is None:
        labels = Labels.load(folder)
        try:
            return PictureCache.open(path), labels
        except DataError as error:
            pictures = train_pictures_again(config, say, error)
    pictures.require("label")
    if not len(pictures):
        raise DataError(f"{pictures.name} is empty: there is nothing to learn from.")
    labels = Labels(pictures.labels)
    if sources.vocabulary is not None:
        say(f"Taking weights and classes from {config.started_from}")
        _checked(pictures, sources.vocabulary)
    labels.save(folder)
    cache = PictureCache.build(path, pictures, labels_of(pictures))
    say(f"{len(cache):,} training pictures of {labels.size} classes")
    return cache, labels


def _checked(pictures: Pictures, labels: Labels) -> Pictures:
    """Return pictures whose classes are those that are known."""
    pictures.require("label")
    if pictures.labels != labels.names:
        raise DataError(
            f"The classes of {pictures.name} are not those that the model knows: {', '.join(labels.names)}."
        )
    return pictures


class ClassValidation:
    """Scores a classifier: the mean loss of a picture, and how many in a hundred are classified rightly."""

    def __init__(self, pictures: PictureCache) -> None:
        self._pictures = pictures

    def __call__(self, model: Classifier, check: Callable[[], None]) -> dict[str, Any]:
        """Score a model in evaluation mode; `check` is called between batches, to be stopped by it."""
        device = next(model.parameters()).device
        total = torch.zeros((), dtype=torch.float64, device=device)
        right = torch.zeros((), dtype=torch.int64, device=device)

        def scored(start: int) -> Float[Tensor, " 2"]:
            batch = make_class_batch(self._pictures, np.arange(start, min(start + AT_ONCE, len(self._pictures))))
            batch = batch.to(device)
            logits: Float[Tensor, "B W"] = model(batch.source).float()
            loss = functional.cross_entropy(logits, batch.labels, reduction="sum")
            return torch.stack((loss, (logits.argmax(dim=-1) == batch.labels).sum().to(loss.dtype)))

        for loss, found in share(range(0, len(self._pictures), AT_ONCE), scored, check):
            total += loss
            right += found.to(right.dtype)
        count = len(self._pictures)
        return {"valid_loss": float(total) / count, "accuracy": 100 * int(right) / count}
