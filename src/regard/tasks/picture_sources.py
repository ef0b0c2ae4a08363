"""Training and validation pictures, and fitting a model to them: shared by all picture tasks."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from regard.config import Config, ImageConfig
from regard.data.pictures import Pictures, held_out, needed_by, open_pictures
from regard.errors import ConfigError, DataError
from regard.models.model_folder import open_folder
from regard.presets.vision import vision, visions
from regard.task import Say
from regard.vision.grid_positions import Grid
from regard.vision.stem import stems

REGIONS = "regions"


@dataclass(frozen=True)
class PictureSources:
    """The training and validation pictures, with their annotations."""

    train: Pictures | None
    """None for a resumed run, which has them in its cache."""
    valid: Pictures | None
    vocabulary: Any = None
    """The vocabulary to use; None to learn it from the training corpus."""


def open_picture_sources(config: Config, resumed: bool) -> PictureSources:
    """Open the training and validation pictures; `data.valid` defaults to the source's own validation part, if any."""
    image = config.model.image
    assert image is not None
    valid = config.data.valid or held_out(config.data.train)
    seed, size, plain = config.seed, max(image.size, 1), config.data.plain_captions
    train = None if resumed else open_pictures(config.data.train, "train", seed, size, plain)
    needed = needed_by(config.model)
    return PictureSources(train, open_pictures(valid, "valid", seed, size, plain, needed) if valid else None)


def guided_grid(config: Config) -> Grid | None:
    """Return the model's grid of cells if attention is to be guided and the grid is square; else None."""
    image = config.model.image
    if not config.training.guided > 0 or image is None:
        return None
    with torch.device("meta"):
        rows, columns = stems[image.kind](image).grid
    return (rows, columns) if rows == columns else None


def train_pictures_again(config: Config, say: Say, why: DataError) -> Pictures:
    """Open the pictures of a resumed run whose cache cannot be read, and report why."""
    say(f"Rebuilding the cache of training pictures: {why}")
    pictures = open_picture_sources(config, resumed=False).train
    assert pictures is not None
    return pictures


def fitted(config: Config) -> Config:
    """Fit the model's settings to its pictures: pixels or region features, channels and number of regions."""
    image = config.model.image
    if image is None or not config.data.train:
        return config
    pixels, needed = image.size if image.kind != REGIONS else 0, needed_by(config.model)[:1]
    pictures = open_pictures(config.data.train, "train", config.seed, pixels, needed=needed)
    fits = _of_pixels(config, image, pictures) if "image" in pictures.has else _of_regions(config, image, pictures)
    return replace(config, model=replace(config.model, image=fits))


RESNET = ImageConfig("resnet", size=64, stages=4)
"""The encoder used in place of region features when the corpus has pixels: 64 cells of pictures of 64 × 64 pixels."""


def _of_pixels(config: Config, image: ImageConfig, pictures: Pictures) -> ImageConfig:
    if image.kind == REGIONS:
        size = image.size if _asks_for_size(config, image) else RESNET.size
        image = replace(RESNET, size=size, width=image.width, positions=image.positions, layers=image.layers)
    return replace(image, channels=pictures.image(0).shape[2])


def _of_regions(config: Config, image: ImageConfig, pictures: Pictures) -> ImageConfig:
    count, width = pictures.regions(0).shape
    if image.kind == REGIONS and image.channels == width and image.size in (0, count**0.5):
        return image
    side = round(count**0.5)
    if image.size not in (0, count**0.5) and _asks_for_size(config, image):
        fits = f"set it to {side}" if side * side == count else "set it to 0, for regions that are not on a grid"
        raise ConfigError(
            f"model.image.size is {image.size}, but the pictures of {pictures.name} have {count} regions each: {fits}, "
            "or leave it out."
        )
    size = side if side * side == count and (image.size or image.kind != REGIONS) else 0
    return replace(image, kind=REGIONS, channels=width, size=size, positions=image.positions if size else "none")


def _asks_for_size(config: Config, image: ImageConfig) -> bool:
    """Return whether the user set a size: one that differs from the preset's or the starting model's."""
    own = vision(config.preset) if config.preset in visions else config
    if config.started_from and Path(config.started_from).is_dir():  # it may have been deleted before a resume
        own = open_folder(Path(config.started_from))
    return own.model.image is not None and own.model.image.size != image.size
