"""Pictures with captions from files: a folder of images in Flickr8k's own layout, and precomputed region features.

A captions file has a line for each caption. Three forms are read, plain or packed (.gz, .xz), told by the first line:

- Flickr8k's own, `name.jpg#0 TAB caption`;
- `name.jpg TAB caption`;
- CSV with the header `image,caption`, where a caption may stand in double quotes.

Pictures come in the order in which the file first names them, or in that of the features. Captions may be taken
plainly, as papers on captions do: in lower case and without punctuation (`plainly`).
"""

import csv
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.data.images import read_image
from regard.data.lines import LineFile, open_lines
from regard.data.pictures import Pictures, within
from regard.errors import DataError

_NUMBERED: Final = re.compile(r"(.+)#[0-9]+")
_CAPTION_FILES: Final = ("captions.tsv", "captions.tsv.gz", "captions.txt", "captions.csv", "Flickr8k.token.txt")
_ENDINGS: Final = (".captions.tsv", ".captions.tsv.gz")
_THUMBNAILS: Final = "thumbnails"
_FORM: Final = "A line is name.jpg#0 TAB caption, or name.jpg TAB caption, or CSV under the header image,caption."

Captions = Mapping[str, tuple[str, ...]]
"""For each picture's name what is said of it, in the order of the file."""


def plainly(caption: str) -> str:
    """Return a caption in lower case and without punctuation: `A man's T-shirt .` becomes `a mans tshirt`."""
    kept = (letter for letter in caption.lower() if not unicodedata.category(letter).startswith("P"))
    return " ".join("".join(kept).split())


def read_captions(file: LineFile, plain: bool = False) -> Captions:
    """Read a captions file in any of its forms; `plain` leaves out capitals and punctuation."""
    first = next(iter(file), None)
    if first is None:
        raise DataError(f"{file.name} is empty: there are no captions in it.")
    rows = _tabbed(file) if "\t" in first else _commas(file, first)
    found: dict[str, list[str]] = {}
    for number, name, caption in rows:
        if not name or not caption:
            raise DataError(f"{file.at(number)}: the {'name' if not name else 'caption'} is empty. {_FORM}")
        said = plainly(caption) if plain else caption
        if not said:
            raise DataError(f"{file.at(number)}: the caption {caption!r} is all punctuation (data.plain_captions).")
        found.setdefault(name, []).append(said)
    if not found:
        raise DataError(f"{file.name} has a header and nothing under it: there are no captions in it.")
    return {name: tuple(captions) for name, captions in found.items()}


def _tabbed(file: LineFile) -> Iterator[tuple[int, str, str]]:
    for number, line in enumerate(file, start=1):
        name, tab, caption = line.partition("\t")
        if not tab or "\t" in caption:
            got = "no tab" if not tab else f"{line.count(chr(9))} tabs"
            raise DataError(f"{file.at(number)}: {got}. {_FORM}")
        numbered = _NUMBERED.fullmatch(name.strip())
        yield number, numbered[1] if numbered else name.strip(), caption.strip()


def _commas(file: LineFile, first: str) -> Iterator[tuple[int, str, str]]:
    if [column.strip().lower() for column in first.split(",")] != ["image", "caption"]:
        raise DataError(f"{file.at(1)}: neither a tab nor the header image,caption. {_FORM}")
    rows = csv.reader(iter(file), strict=True)
    try:
        next(rows)
        for row in rows:
            if len(row) != 2:
                what = "1 column" if len(row) == 1 else f"{len(row)} columns"
                raise DataError(
                    f"{file.at(rows.line_num)}: {what} instead of image,caption. "
                    "A caption with commas stands in double quotes."
                )
            yield rows.line_num, row[0].strip(), row[1].strip()
    except csv.Error as error:
        raise DataError(f"{file.at(rows.line_num)}: not CSV ({error}).") from None


def _some(names: Iterable[str]) -> str:
    """Name up to three."""
    names = list(names)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class CaptionedImages(Pictures):
    """A folder of images and a captions file. Images are read when they are asked for; those without a caption never.

    `names` is a file that lists one name a line, as Flickr8k's splits are given (`Flickr_8k.trainImages.txt`): only
    these images are taken, in that order.
    """

    has = frozenset(("image", "captions"))

    def __init__(
        self,
        folder: Path,
        captions: Path | None = None,
        pixels: int = 64,
        names: Path | None = None,
        plain: bool = False,
    ) -> None:
        if not folder.is_dir():
            raise DataError(f"No folder {str(folder)!r} with images.")
        file = open_lines(str(captions if captions is not None else _captions_in(folder)))
        self.name = str(folder)
        self._folder, self._pixels, self._identity = folder, pixels, file.identity + _said_how(plain)
        self._captions = read_captions(file, plain)
        self._names = list(self._captions)
        if names is not None:
            listed = open_lines(str(names))
            self._names = [line.strip() for line in listed if line.strip()]
            self._identity += f"\n{listed.identity}"
            _check_all_said(self._names, self._captions, listed.name, file.name)
        self._check_there(file.name)

    def _check_there(self, captions: str) -> None:
        there = {str(path.relative_to(self._folder)) for path in self._folder.rglob("*") if path.is_file()}
        missing = [name for name in self._names if name not in there]
        if missing:
            raise DataError(
                f"{captions} speaks of {_count(len(missing), 'image')} that {self._folder} does not have: "
                f"{_some(missing)}. Give the folder that has them, or remove their lines."
            )

    def __len__(self) -> int:
        return len(self._names)

    def identity(self) -> str:
        """Take in the captions file and the images' sizes and times."""
        stamps = ((self._folder / name).stat() for name in self._names)
        check = zlib.crc32(" ".join(f"{stamp.st_size} {stamp.st_mtime_ns}" for stamp in stamps).encode())
        return f"{type(self).__name__} {self._folder.resolve()} {self._pixels} {check:08x}\n{self._identity}"

    def image(self, index: int) -> NDArray[np.uint8]:
        """Read an image: `pixels` × `pixels` × 3."""
        return read_image(self._folder / self._names[within(index, len(self))], self._pixels)

    def captions(self, index: int) -> tuple[str, ...]:
        """Return the captions of an image."""
        return self._captions[self._names[within(index, len(self))]]


def _said_how(plain: bool) -> str:
    """Return what tells plain captions from others where nothing else does."""
    return "\nplain" if plain else ""


def _captions_in(folder: Path) -> Path:
    found = [folder / name for name in _CAPTION_FILES if (folder / name).is_file()]
    if not found:
        raise DataError(
            f"{folder} has no captions file ({', '.join(_CAPTION_FILES)}). Give one after the folder. {_FORM}"
        )
    return found[0]


class RegionFeatures(Pictures):
    """Features of the regions of pictures, precomputed by another network, and a captions file.

    The .npz file has `names`; `regions`, pictures × regions × width, in floating point or as integers to be multiplied
    by `regions_scale` (one number, or one for each place of the width); and it may have `pooled`, pictures × width.
    A folder `thumbnails` beside it may have some of the pictures, by their names, for people to see.
    They stay as they were stored, and become floating point one picture at a time; what was stored without compression
    (`np.savez`) even stays on disk until it is asked for.
    """

    has = frozenset(("regions", "captions"))

    def __init__(self, features: Path, captions: Path | None = None, plain: bool = False) -> None:
        self.name = str(features)
        stored = _load(features, ("regions", "names"), ("regions_scale", "pooled"))
        self._thumbnails = features.parent / _THUMBNAILS
        self._stored, self._scale, self._pooled = stored["regions"], stored.get("regions_scale"), stored.get("pooled")
        self._names = [str(name) for name in stored["names"].ravel()]
        _check_shapes(str(features), self._stored, self._scale, self._pooled, len(self._names))
        file = open_lines(str(captions if captions is not None else _captions_beside(features)))
        self._captions = read_captions(file, plain)
        known = set(self._names)
        unknown = [name for name in self._captions if name not in known]
        if unknown:
            raise DataError(
                f"{file.name} speaks of {_count(len(unknown), 'picture')} that {features} does not have: "
                f"{_some(unknown)}. Give the captions that belong to the features, or remove their lines."
            )
        _check_all_said(self._names, self._captions, str(features), file.name)
        status = features.stat()
        self._identity = (
            f"{features.resolve()} {status.st_size} {status.st_mtime_ns}\n{file.identity}{_said_how(plain)}"
        )

    def __len__(self) -> int:
        return len(self._names)

    def identity(self) -> str:
        """Take in the files' sizes and times."""
        return f"{type(self).__name__} {self._identity}"

    @property
    def names(self) -> tuple[str, ...]:
        """What the pictures are called, in order."""
        return tuple(self._names)

    @property
    def width(self) -> int:
        """The width of a region's features."""
        return int(self._stored.shape[2])

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
        """Read a picture's thumbnail, where there is one."""
        path = self._thumbnails / self._names[within(index, len(self))]
        return read_image(path) if path.is_file() else None

    def called(self, index: int) -> str:
        """Return a picture's name."""
        return self._names[within(index, len(self))]

    def captions(self, index: int) -> tuple[str, ...]:
        """Return the captions of a picture."""
        return self._captions[self._names[within(index, len(self))]]


def _check_all_said(names: Iterable[str], captions: Captions, listed: str, file: str) -> None:
    silent = [name for name in names if name not in captions]
    if silent:
        raise DataError(
            f"{listed} has {_count(len(silent), 'picture')} without a caption in {file}: {_some(silent)}. "
            "Give the captions file that belongs to it."
        )


def _captions_beside(features: Path) -> Path:
    stem = features.name.removesuffix(".npz")
    beside = [features.with_name(stem + ending) for ending in _ENDINGS]
    found = next((path for path in beside if path.is_file()), None)
    if found is None:
        raise DataError(f"No captions file {beside[1].name} beside {features}. Give one after it. {_FORM}")
    return found


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
    """Map an array of an .npz file into memory where it is stored as it is; else read it."""
    info = stored.zip.getinfo(member)
    with stored.zip.open(info) as file:
        version = np.lib.format.read_magic(file)
        if info.compress_type != zipfile.ZIP_STORED or version not in ((1, 0), (2, 0)):
            return np.asarray(stored[member.removesuffix(".npy")])
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(file)
        within_member = file.tell()
    if dtype.hasobject or 0 in shape:
        return np.asarray(stored[member.removesuffix(".npy")])  # refuses objects: they would have to be unpickled
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
            raise DataError(f"{name}: {what} is {told(array)}, but there are {_count(count, 'name')}: they must agree.")
    if scale is None and regions.dtype.kind in "iu":
        raise DataError(f"{name}: regions are integers, but there is no regions_scale to multiply them by.")
    if scale is not None and scale.shape not in ((), (1,), regions.shape[2:]):
        raise DataError(
            f"{name}: regions_scale is {told(scale)}, but a region has {regions.shape[2]:,} features: "
            "give one number, or one for each."
        )
