"""Read the pictures that a command was given into the form its model takes."""

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
        help="For models that read region features: the .npz file with those of IMAGE, stored under its name.",
    ),
]


class Skipped:
    """Counts and reports pictures that cannot be read, so that the others are still processed."""

    def __init__(self) -> None:
        self.count = 0
        self._told = set[str]()

    def __call__(self, error: DataError) -> None:
        """Print why a picture is skipped; each message is printed once."""
        self.count += 1
        if str(error) not in self._told:
            typer.echo(f"regard: {error}", err=True)
        self._told.add(str(error))

    def leave(self) -> None:
        """Exit with code 2 if a picture was skipped."""
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
    """Read image files, folders of images and scenes by number; return their names and the stacked arrays.

    For models of region features, `images` are names in the `features` file, or paths of files with such names.
    A picture that cannot be read is passed to `skip` and left out.
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
                "--scene gives pixels, and this model reads region features: give IMAGE by its name instead."
            )
        names, found = read_each(names, lambda name: stored.regions(stored.find(name)), skip)
        return names, np.stack(found) if found else np.zeros((0, 1, image.channels), np.float32)
    names, pictures = read_files(list(images or []), image.size, image.channels, skip)
    if not scenes:
        return names, pictures
    painted = np.stack([scene(split, number, pixels=image.size).painting.image for number in scenes])
    return [*names, *(f"scenes:{split} {number}" for number in scenes)], np.concatenate((pictures, painted))


def read_shown(config: Config, image: Path, features: Path | None = None) -> "tuple[NDArray[Any], NDArray[np.uint8]]":
    """Return an image as the model reads it, and the same part of it at a higher resolution for display.

    For region features, the image to display is the file if it exists, else the thumbnail stored with the features.
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
                f"No file {str(image)!r} and no thumbnail of that name with {features}, so there is no picture to draw "
                "the attention on: give the path of the picture."
            )
        every = -(-min(shown.shape[:2]) // _SHOWN)  # uncropped, as the features were computed
        return stored.regions(index)[None], shown[::every, ::every]
    _, pictures = read_inputs(config, [image])
    return pictures, read_image(image, min(*read_image(image).shape[:2], _SHOWN))


def _stored(image: ImageConfig, features: Path | None) -> "Regions":
    """Open a file of region features; raise an error if it does not fit the model."""
    from regard.data.region_features import Regions

    if image.kind != "regions":
        raise ConfigError("--features is for models that read region features, and this one reads pixels.")
    if features is None:
        raise ConfigError(
            "This model reads region features computed by another network, not pixels: give the .npz file with those "
            "of the picture as --features FILE."
        )
    stored = Regions(features)
    if stored.width != image.channels:
        raise DataError(
            f"{features} has {stored.width:,} features per region, and the model reads {image.channels:,}: give "
            "features computed in the same way as those of its training data."
        )
    return stored


_SHOWN = 640
"""Maximum pixels per side of a displayed image: more than models read."""
