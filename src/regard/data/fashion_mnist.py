"""Fashion-MNIST (Xiao et al. 2017) from IDX files, such as those of Debian's `dataset-fashion-mnist`."""

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from regard.data.image_files import resize
from regard.data.pictures import Pictures, within
from regard.errors import DataError, did_you_mean

DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
"""The folder of Debian's package."""
LABELS: Final = (
    "T-shirt/top", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
SPLITS: Final = ("train", "valid", "test", "all")
_FILES: Final = {"train": "train", "valid": "train", "all": "train", "test": "t10k"}
_IMAGES, _LABELS = 0x0803, 0x0801
"""The magic numbers of IDX files: data type (8 for bytes) and number of axes."""
_LARGEST: Final = 1 << 30


class FashionMnist(Pictures):
    """Greyscale pictures of clothes, 28 × 28, in ten classes.

    "all" is the 60,000 that papers train on. "train" is the first 55,000 of these and "valid" the rest, for model
    selection; "test" is the 10,000 of the `t10k` files. With `pixels`, they are resized to that height and width.
    """

    has = frozenset(("image", "label"))
    channels = 1
    labels = LABELS

    def __init__(self, folder: Path, split: str = "train", pixels: int = 0) -> None:
        if split not in SPLITS:
            hint = did_you_mean(split, SPLITS)
            raise DataError(f"No split named {split!r} in Fashion-MNIST.{hint} It has {', '.join(SPLITS)}.")
        self.name = f"{folder}:{split}"
        paths = [_find(folder, f"{_FILES[split]}-{what}-ubyte") for what in ("images-idx3", "labels-idx1")]
        pictures, labels = read_idx(paths[0], _IMAGES), read_idx(paths[1], _LABELS)
        if len(pictures) != len(labels):
            raise DataError(
                f"{paths[0]} has {len(pictures):,} pictures but {paths[1]} has {len(labels):,} labels: "
                "the files must belong together."
            )
        if labels.size and labels.max() >= len(LABELS):
            raise DataError(f"{paths[1]} has a label {labels.max()}, but Fashion-MNIST's go from 0 to 9.")
        last = len(pictures) - len(pictures) // 12
        part = {"train": slice(last), "valid": slice(last, None)}.get(split, slice(None))
        self._pictures, self._labels = pictures[part, :, :, None], labels[part]
        self._pixels = pixels
        size = f" {pixels}" if pixels and self._pictures.shape[1:3] != (pixels, pixels) else ""
        self._identity = "\n".join(f"{path.resolve()} {_stamp(path)}{size}" for path in paths)

    def __len__(self) -> int:
        return len(self._labels)

    def identity(self) -> str:
        """Cover the files' sizes and times."""
        return f"{type(self).__name__} {self.name}\n{self._identity}"

    def image(self, index: int) -> NDArray[np.uint8]:
        """Return a picture: 28 × 28 × 1 unless it is resized, white on black."""
        picture: NDArray[np.uint8] = self._pictures[within(index, len(self))]
        return resize(picture, self._pixels) if self._pixels else picture

    def images(self, indices: Sequence[int] | NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return several pictures."""
        if self._pixels and self._pictures.shape[1:3] != (self._pixels, self._pixels):
            return super().images(indices)
        pictures: NDArray[np.uint8] = self._pictures[np.asarray(indices)]
        return pictures

    def label(self, index: int) -> int:
        """Return the class of a picture."""
        return int(self._labels[within(index, len(self))])


def is_fashion(folder: Path) -> bool:
    """Return whether a folder has IDX files."""
    return any(folder.glob("*-ubyte")) or any(folder.glob("*-ubyte.gz"))


def read_idx(path: Path, magic: int) -> NDArray[np.uint8]:
    """Read an IDX file of bytes: magic number, length of each axis (big-endian), data."""
    content = _unpacked(path)
    axes = magic & 0xFF
    begins = int.from_bytes(content[:4], "big")
    if len(content) < 4 or begins != magic:
        other = {_IMAGES: "images", _LABELS: "labels"}.get(begins)
        found = f"it is a file of {other}" if other else f"it begins with 0x{content[:4].hex()}"
        raise DataError(f"{path} is not an IDX file of {axes} axes (0x{magic:08x}): {found}. Fetch it again.")
    shape = [int.from_bytes(content[4 + 4 * i : 8 + 4 * i], "big") for i in range(axes)]
    start, expected = 4 + 4 * axes, 1
    for length in shape:
        expected *= length
    if len(content) - start != expected:
        told = " × ".join(f"{length:,}" for length in shape)
        got = max(0, len(content) - start)
        raise DataError(f"{path} should have {told} bytes but has {got:,}: it is truncated or damaged. Fetch it again.")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _find(folder: Path, name: str) -> Path:
    """Find a file, compressed or not; some have a dot where others have a dash."""
    names = [f"{spelt}{ending}" for spelt in (name, name.replace("-idx", ".idx")) for ending in (".gz", "")]
    found = next((folder / name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise DataError(
            f"{folder} has no {names[0]}. Fashion-MNIST is four IDX files, {names[0]} one of them; "
            f"Debian's package dataset-fashion-mnist puts them into {DEBIAN}."
        )
    return found


def _unpacked(path: Path) -> bytes:
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == b"\x1f\x8b"
            raw.seek(0)
            with gzip.GzipFile(fileobj=raw) if packed else raw as file:
                content: bytes = file.read(_LARGEST + 1)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path} is truncated or damaged ({error}). Fetch it again.") from None
    except OSError as error:
        raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
    if len(content) > _LARGEST:
        raise DataError(
            f"{path} has more than {_LARGEST >> 20} MB, far more than Fashion-MNIST. Is this the right file?"
        )
    return content


def _stamp(path: Path) -> str:
    status = path.stat()
    return f"{status.st_size} {status.st_mtime_ns}"
