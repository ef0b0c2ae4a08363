"""Read pictures in the form a model takes: image files, or region features computed by another network."""

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEGAPIXELS = 50
"""The largest image that is decoded: a small file can decompress to fill the memory."""
TOO_LARGE = f"it has more than the limit of {MEGAPIXELS} million pixels. Make it smaller."
FEATURES = "this model reads region features: give an .npz file of them and names of pictures in it, or .npy files"

Read = dict[str, NDArray[Any]]


class UnreadableError(Exception):
    """A picture cannot be read; the message says why."""


def read_pictures(given: Sequence[str], told: Mapping[str, Any]) -> Iterator[tuple[str, Read]]:
    """Yield each picture's name and its arrays, read from image files or feature files.

    A model of region features takes .npy files (regions × width), or names of pictures in a preceding .npz file.
    Unreadable pictures are reported and skipped; the exit code is then 2.
    """
    stored: Mapping[str, NDArray[Any]] | None = None
    failed = False
    for name in given:
        features = told["kind"] == "regions" and name.endswith(".npz")
        try:
            if features:
                stored = _open_features(name)
            else:
                yield name, read_picture(name, told, stored)
        except UnreadableError as error:
            failed = True
            print(f"{name}: {error}", file=sys.stderr)
            if features:  # the following arguments are names in it
                break
    if stored is not None and all(name.endswith(".npz") for name in given):
        failed = True
        print(f"{given[-1]}: give names of pictures in it, after it.", file=sys.stderr)
    if failed:
        sys.exit(2)


def before(name: str) -> str:
    """Return the prefix of output lines: the picture's name and a tab, if several pictures are given."""
    several = len([one for one in sys.argv[1:] if not one.endswith(".npz")]) > 1
    return f"{name}\t" if several else ""


def read_picture(
    path: str | Path, told: Mapping[str, Any], stored: Mapping[str, NDArray[Any]] | None = None
) -> dict[str, NDArray[Any]]:
    """Read one picture: its largest centred square, resized; or its region features.

    EXIF rotation is applied, and transparent areas become white.
    """
    if told["kind"] == "regions":
        regions = _read_array(path) if stored is None else _find(stored, str(path))
        _check_regions(regions, told)
        return {"regions": regions.astype(np.float32)[None], "mask": np.ones((1, len(regions)), np.bool_)}
    image = open_picture(path)
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    size = told["size"]
    pixels = np.array(image.crop((left, top, left + side, top + side)).resize((size, size), 3))  # 3: bicubic
    if told["channels"] == 1:
        pixels = (pixels @ np.array([0.299, 0.587, 0.114]) + 0.5).astype(np.uint8)[..., None]
    return {"pixels": pixels[None]}


def open_picture(path: str | Path) -> Any:
    """Open an image file as RGB."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large sizes, which are checked here
            return _opened(path)
    except UnreadableError:
        raise
    except Exception as error:  # Pillow and the libraries under it raise whatever a damaged file leads to
        raise UnreadableError(f"it cannot be read as an image ({_reason(error)}).") from None


def _opened(path: str | Path) -> Any:
    from PIL import Image, ImageOps

    try:
        image: Any = Image.open(path)
    except Image.DecompressionBombError:
        raise UnreadableError(TOO_LARGE) from None
    if image.width * image.height > MEGAPIXELS * 1e6:
        raise UnreadableError(TOO_LARGE)
    image = ImageOps.exif_transpose(image)
    if image.mode == "F" or (image.mode == "I" and np.asarray(image).max() > 65_535):
        raise UnreadableError("it has 32-bit pixels, whose black and white levels are not defined.")
    if image.mode.startswith("I"):  # the upper 8 of 16 bits
        image = Image.fromarray((np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8))
    if "A" in image.getbands() or "transparency" in image.info:
        over = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", over.size, (255, 255, 255, 255)), over)
    return image.convert("RGB")


def _open_features(path: str) -> Mapping[str, NDArray[Any]]:
    """Read an .npz file of features: `names`, `regions` (pictures × regions × width), and maybe `regions_scale`."""
    try:
        with np.load(path, allow_pickle=False) as file:
            stored = {name: file[name] for name in ("names", "regions", "regions_scale") if name in file}
    except Exception as error:  # zip files and arrays are damaged in many ways
        raise UnreadableError(f"it cannot be read as an .npz file ({_reason(error)}).") from None
    if "names" not in stored or "regions" not in stored or stored["regions"].ndim != 3:
        raise UnreadableError("it must have the arrays names, and regions: pictures × regions × width.")
    return stored


def _find(stored: Mapping[str, NDArray[Any]], name: str) -> NDArray[Any]:
    """Return the features of a picture, by its name or by the file name of a path."""
    names = [str(known) for known in stored["names"].ravel()]
    own = name if name in names else Path(name).name
    if own not in names:
        raise UnreadableError("the .npz file has no picture of this name.")
    features: NDArray[Any] = stored["regions"][names.index(own)] * stored.get("regions_scale", np.float32(1))
    return features


def _read_array(path: str | Path) -> NDArray[Any]:
    try:
        with open(path, "rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:
        raise UnreadableError(f"it cannot be read as an .npy file ({_reason(error)}); {FEATURES}.") from None


def _check_regions(regions: NDArray[Any], told: Mapping[str, Any]) -> None:
    rows, width = told["size"] ** 2 or "any number of", told["channels"]
    if regions.ndim != 2 or regions.shape[1] != width or (told["size"] and len(regions) != rows):
        got = " × ".join(map(str, regions.shape)) or "one number"
        raise UnreadableError(f"the model reads {rows} regions of {width} features, got {got}.")


def _reason(error: Exception) -> str:
    """Return an error's reason in one line, without the file name."""
    if "pickle" in str(error):  # NumPy takes any other kind of file for a pickle
        return "it is another kind of file"
    return (getattr(error, "strerror", None) or str(error).partition("\n")[0] or type(error).__name__).rstrip(".")
