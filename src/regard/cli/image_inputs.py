"""The pictures that a command was given, as its model reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.config import Config, ImageConfig
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from regard.data.pictures import Skip
    from regard.data.region_features import Regions

Features = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="For a model that reads features of regions: the .npz file that has those of IMAGE, by its name.",
    ),
]


class Skipped:
    """The pictures that cannot be read: each is told of when it comes, and costs none of the others."""

    def __init__(self) -> None:
        self.count = 0
        self._told = set[str]()

    def __call__(self, error: DataError) -> None:
        """Tell why a picture is left out; what has been told is not told again."""
        self.count += 1
        if str(error) not in self._told:
            typer.echo(f"regard: {error}", err=True)
        self._told.add(str(error))

    def leave(self) -> None:
        """End the command, which has failed if one was left out."""
        if self.count:
            raise typer.Exit(2)


def read_inputs(
    config: Config,
    images: Sequence[Path] | None = None,
    scenes: Sequence[int] | None = None,
    split: str = "test",
    features: Path | None = None,
    skip: "Skip | None" = None,
) -> "tuple[list[str], NDArray[Any]]":
    """Read image files, folders of them, and scenes by their numbers; return what each is called, too.

    Of a model that reads regions, images are the names that `features` has, or files of these names. What cannot be
    read is told to `skip` and left out.
    """
    import numpy as np

    from regard.data.pictures import read_each, read_files
    from regard.data.scenes import scene

    image = config.model.image
    assert image is not None
    if features is not None or image.kind == "regions":
        stored, names = _stored(image, features), [*map(str, images or [])]
        if scenes:
            raise ConfigError(
                "--scene paints pixels, and this model reads features of regions: give IMAGE by its name."
            )
        names, found = read_each(names, lambda name: stored.regions(stored.find(name)), skip)
        return names, np.stack(found) if found else np.zeros((0, 1, image.channels), np.float32)
    names, pictures = read_files(list(images or []), image.size, image.channels, skip)
    if not scenes:
        return names, pictures
    painted = np.stack([scene(split, number, pixels=image.size).painting.image for number in scenes])
    return [*names, *(f"scenes:{split} {number}" for number in scenes)], np.concatenate((pictures, painted))


def read_shown(config: Config, image: Path, features: Path | None = None) -> "tuple[NDArray[Any], NDArray[np.uint8]]":
    """Return an image as the model reads it, and the same part of it in as many pixels as are worth showing.

    The picture that belongs to features is the file, or else the thumbnail beside them.
    """
    from regard.data.image_files import read_image

    if image.is_dir():
        raise ConfigError(f"{image} is a folder: give one image of it.")
    if features is not None:
        assert config.model.image is not None
        stored = _stored(config.model.image, features)
        index = stored.find(str(image))
        shown = read_image(image) if image.is_file() else stored.shown(index)
        if shown is None:
            raise DataError(
                f"No file {str(image)!r} and no thumbnail of that name beside {features}, so there is nothing to lay "
                "the attention over: give the path of the picture."
            )
        every = -(-min(shown.shape[:2]) // _SHOWN)  # the whole of it, for that is what features are made of
        return stored.regions(index)[None], shown[::every, ::every]
    _, pictures = read_inputs(config, [image])
    return pictures, read_image(image, min(*read_image(image).shape[:2], _SHOWN))


def _stored(image: ImageConfig, features: Path | None) -> "Regions":
    """Open the features that a model reads."""
    from regard.data.region_features import Regions

    if image.kind != "regions":
        raise ConfigError("--features is for models that read features of regions, and this one reads pixels.")
    if features is None:
        raise ConfigError(
            "This model reads features of regions that another network made, and no pixels: give the .npz file that "
            "has those of the picture with --features FILE."
        )
    stored = Regions(features)
    if stored.width != image.channels:
        raise DataError(
            f"{features} has {stored.width:,} features of a region, and the model reads {image.channels:,}: give "
            "features that were made as those that it learned from."
        )
    return stored


_SHOWN = 640
"""Pixels a side that are shown of an image, if it has them: more than models read."""
