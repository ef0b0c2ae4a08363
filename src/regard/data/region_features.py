"""Region features of pictures, computed by another network, in an .npz file.

The file has `names`; `regions`, pictures × regions × width, in floating point or as integers to be multiplied by
`regions_scale` (one number, or one per feature); and optionally `pooled`, pictures × width. A folder `thumbnails` next
to it may have some of the pictures, by their names, for display.
"""

import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.data.image_files import read_image
from regard.data.pictures import within
from regard.errors import DataError, did_you_mean

_THUMBNAILS: Final = "thumbnails"
_CLOSE: Final = 0.85
"""The similarity of a name to be suggested; high, since names of photographs are similar by chance."""


class Regions:
    """An open file of region features.

    Features are converted to floating point one picture at a time; uncompressed files (`np.savez`) are memory-mapped.
    """

    def __init__(self, features: Path) -> None:
        self.name = str(features)
        stored = _load(features, ("regions", "names"), ("regions_scale", "pooled"))
        self._thumbnails = features.parent / _THUMBNAILS
        self._stored, self._scale, self._pooled = stored["regions"], stored.get("regions_scale"), stored.get("pooled")
        self._names = [str(name) for name in stored["names"].ravel()]
        self._known = {name: index for index, name in enumerate(self._names)}
        _check_shapes(str(features), self._stored, self._scale, self._pooled, len(self._names))

    def __len__(self) -> int:
        return len(self._names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the pictures, in order."""
        return tuple(self._names)

    @property
    def width(self) -> int:
        """The width of a region's features."""
        return int(self._stored.shape[2])

    def find(self, name: str) -> int:
        """Return the number of a picture, given its name or a path with that file name."""
        alone = Path(name).name
        found = self._known.get(name, self._known.get(alone))
        if found is None:
            hint = did_you_mean(alone, self._known, cutoff=_CLOSE)
            some = f" It has {counted(len(self), 'picture')}, with names such as {self._names[0]!r}."
            raise DataError(f"{self.name} has no picture {alone!r}.{hint or some}")
        if self._names.count(self._names[found]) > 1:
            raise DataError(f"{self.name} has several pictures named {self._names[found]!r}: their names must differ.")
        return found

    def called(self, index: int) -> str:
        """Return a picture's name."""
        return self._names[within(index, len(self))]

    def regions(self, index: int) -> NDArray[np.float32]:
        """Return the features of a picture's regions: regions × width."""
        features = self._stored[within(index, len(self))].astype(np.float32)
        scaled: NDArray[np.float32] = features if self._scale is None else features * self._scale.astype(np.float32)
        return scaled

    def pooled(self, index: int) -> NDArray[np.float32]:
        """Return the features of a whole picture."""
        if self._pooled is None:
            raise DataError(f"{self.name} has no pooled features.")
        features: NDArray[np.float32] = self._pooled[within(index, len(self))].astype(np.float32)
        return features

    def shown(self, index: int) -> NDArray[np.uint8] | None:
        """Read a picture's thumbnail; None if there is none."""
        return read_image(self._thumbnail(index)) if self.can_be_seen(index) else None

    def can_be_seen(self, index: int) -> bool:
        """Return whether a picture has a thumbnail."""
        return self._thumbnail(index).is_file()

    def _thumbnail(self, index: int) -> Path:
        return self._thumbnails / self.called(index)


def counted(number: int, noun: str) -> str:
    """Format a count with its noun: `1 pair`, `1,000 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _load(path: Path, needed: tuple[str, ...], optional: tuple[str, ...]) -> dict[str, NDArray[Any]]:
    if not path.is_file():
        raise DataError(f"No file {str(path)!r} with region features.")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            if not isinstance(stored, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            missing = [name for name in needed if name not in stored]
            if missing:
                raise DataError(
                    f"{path} has no {' and no '.join(missing)}, only {', '.join(stored.files) or 'nothing'}. Region "
                    "features have regions (pictures × regions × width) and names."
                )
            wanted = [name for name in (*needed, *optional) if name in stored]
            return {name: _mapped(path, f"{name}.npy", stored) for name in wanted}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise DataError(f"{path} is not an .npz file of numbers that can be read ({error}).") from None


def _mapped(path: Path, member: str, stored: Any) -> NDArray[Any]:
    """Memory-map an array of an .npz file if it is uncompressed; else read it."""
    info = stored.zip.getinfo(member)
    with stored.zip.open(info) as file:
        version = np.lib.format.read_magic(file)
        if info.compress_type != zipfile.ZIP_STORED or version not in ((1, 0), (2, 0)):
            return np.asarray(stored[member.removesuffix(".npy")])
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        within_member = file.tell()
    if dtype.hasobject or 0 in shape:
        return np.asarray(stored[member.removesuffix(".npy")])  # rejects object arrays, which would need pickle
    with path.open("rb") as raw:
        raw.seek(info.header_offset + 26)
        lengths = raw.read(4)
    name, extra = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
    start = info.header_offset + 30 + name + extra + within_member
    return np.memmap(path, dtype, "r", start, shape, "F" if fortran else "C")


def _check_shapes(
    name: str, regions: NDArray[Any], scale: NDArray[Any] | None, pooled: NDArray[Any] | None, count: int
) -> None:
    def told(array: NDArray[Any]) -> str:
        return " × ".join(f"{length:,}" for length in array.shape) or "one number"

    if regions.ndim != 3 or not regions.size or regions.dtype.kind not in "iuf":
        raise DataError(
            f"{name}: regions is {told(regions)} of {regions.dtype}, not pictures × regions × width of numbers."
        )
    for what, array in (("regions", regions), ("pooled", pooled)):
        if array is not None and (not array.ndim or len(array) != count):
            raise DataError(
                f"{name}: {what} is {told(array)}, but there are {counted(count, 'name')}: they must agree."
            )
    if scale is None and regions.dtype.kind in "iu":
        raise DataError(f"{name}: regions are integers, but there is no regions_scale to multiply them by.")
    if scale is not None and scale.shape not in ((), (1,), regions.shape[2:]):
        raise DataError(
            f"{name}: regions_scale is {told(scale)}, but a region has {regions.shape[2]:,} features: "
            "give one number, or one for each."
        )
