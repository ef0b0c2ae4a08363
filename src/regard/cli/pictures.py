"""The pictures that a command was given, as its model reads them."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.config import Config
from regard.errors import ModelError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_asked(
    config: Config, images: Sequence[Path] | None = None, scenes: Sequence[int] | None = None, split: str = "test"
) -> "tuple[list[str], NDArray[Any]]":
    """Read image files, folders of them, and scenes by their numbers; return what each is called, too."""
    import numpy as np

    from regard.data.pictures import read_files
    from regard.data.scenes import scene

    image = config.model.image
    assert image is not None
    if image.kind == "regions":
        raise ModelError(
            "This model reads features of regions that another network made, and no pixels: score it with regard "
            "evaluate MODEL --data FEATURES.npz."
        )
    names, pictures = read_files(list(images or []), image.size, image.channels)
    if not scenes:
        return names, pictures
    painted = np.stack([scene(split, number, pixels=image.size).painting.image for number in scenes])
    return [*names, *(f"scenes:{split} {number}" for number in scenes)], np.concatenate((pictures, painted))
