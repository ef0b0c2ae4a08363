"""Which corpora a configuration wants, and what is made of them: texts, or what is to be made of pictures."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.config import Config, ImageConfig
from regard.data.builtin_corpora import corpora
from regard.data.pictures import Pictures, are_pictures, needed_by, open_pictures
from regard.errors import ConfigError
from regard.models.model_folder import open_folder
from regard.presets.vision import vision, visions
from regard.training.answers import open_answers
from regard.training.captions import PictureSources, open_captions, open_picture_sources
from regard.training.classes import open_classes
from regard.training.objects import open_objects
from regard.training.progress import Reporter
from regard.training.training_data import Material, Sources
from regard.training.training_data import open_material as open_texts
from regard.training.training_data import open_sources as open_text_sources
from regard.vision.build import ANSWER, CLASSIFY, DETECT

REGIONS = "regions"


def open_sources(config: Config, resumed: bool) -> Sources | PictureSources:
    """Open the corpora, so that what is wrong with them shows at once."""
    if config.model.image is None:
        return open_text_sources(config, resumed)
    return open_picture_sources(config, resumed)


def open_material(
    config: Config, folder: Path, sources: Any, reporter: Reporter, few_shapes: bool
) -> tuple[Any, Material]:
    """Make vocabularies and caches in a model folder, or take those that a resumed run made when it began."""
    if config.model.image is None:
        return open_texts(config, folder, sources, reporter, few_shapes)
    opened = {CLASSIFY: open_classes, ANSWER: open_answers, DETECT: open_objects}.get(config.model.task)
    if opened is not None:
        return opened(config, folder, sources, reporter)
    return open_captions(config, folder, sources, reporter, few_shapes)


def fitted(config: Config) -> Config:
    """Fit a model that reads pictures to the pictures: pixels or features of regions, colours, and how many.

    Raises a ConfigError where texts are given to a model that reads pictures, or pictures to one that reads texts.
    """
    check_data(config)
    image = config.model.image
    if image is None or not config.data.train:
        return config
    pixels, needed = image.size if image.kind != REGIONS else 0, needed_by(config.model)[:1]
    pictures = open_pictures(config.data.train, "train", config.seed, pixels, needed=needed)
    fits = _of_pixels(config, image, pictures) if "image" in pictures.has else _of_regions(config, image, pictures)
    return replace(config, model=replace(config.model, image=fits))


RESNET = ImageConfig("resnet", size=64, stages=4)
"""What reads pixels in the place of features that are not there: 64 cells of pictures of 64 rows and columns."""


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
        fits = f"set it to {side}" if side * side == count else "set it to 0, for regions that lie anywhere"
        raise ConfigError(
            f"model.image.size is {image.size}, but the pictures of {pictures.name} have {count} regions each: {fits}, "
            "or leave it out."
        )
    size = side if side * side == count and (image.size or image.kind != REGIONS) else 0
    return replace(image, kind=REGIONS, channels=width, size=size, positions=image.positions if size else "none")


def _asks_for_size(config: Config, image: ImageConfig) -> bool:
    """Tell whether a size is asked for: another than that of the model or the preset that is started from."""
    own = vision(config.preset) if config.preset in visions else config
    if config.started_from and Path(config.started_from).is_dir():  # it may be gone when a run is resumed
        own = open_folder(Path(config.started_from))
    return own.model.image is not None and own.model.image.size != image.size


def check_data(config: Config) -> None:
    """Refuse texts for a model that reads pictures, and pictures for one that reads texts."""
    reads_pictures = config.model.image is not None
    for name in ("tagged", "mixed", "held_out"):
        if reads_pictures and getattr(config.data, name):
            instead = "leave it out" if name == "held_out" else "give data.train"
            raise ConfigError(f"data.{name} is for texts, and this model reads pictures (model.image): {instead}.")
    for name in ("train", "valid"):
        parts = getattr(config.data, name)
        what = f" (preset {config.preset})" if config.preset else ""
        if not reads_pictures and are_pictures(parts):
            raise ConfigError(
                f"data.{name}={parts[0]} has pictures, and this model{what} reads texts: take one that reads pictures "
                "(regard list visions), such as --preset captioner-small."
            )
        if reads_pictures and parts and not are_pictures(parts) and _are_texts(parts):
            raise ConfigError(
                f"data.{name}={parts[0]} has texts, and this model{what} reads pictures: give scenes, fashion-mnist, a "
                "folder of images or an .npz file of region features, or take a model of texts (regard list presets)."
            )


def _are_texts(parts: tuple[str, ...]) -> bool:
    return parts[0] == "-" or parts[0].partition(":")[0] in corpora or Path(parts[0]).is_file()
