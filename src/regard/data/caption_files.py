"""Pictures with captions from files: a folder of images in Flickr8k's layout, or precomputed region features.

A captions file has one caption per line. It has one of three formats, recognised by the first line, and may be
compressed (.gz, .xz):

- Flickr8k's own, `name.jpg#0 TAB caption`;
- `name.jpg TAB caption`;
- CSV with the header `image,caption`, where a caption may stand in double quotes.

Pictures are in the order in which the file first names them, or in that of the features. Captions can be normalised as
is usual in papers: lower case, without punctuation (`plainly`).
"""

import csv
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from regard.data.image_files import read_image
from regard.data.line_files import LineFile, files_in, open_lines
from regard.data.pictures import IMAGES, Pictures, within
from regard.data.region_features import Regions, counted
from regard.errors import DataError

_NUMBERED: Final = re.compile(r"(.+)#[0-9]+")
_CAPTION_FILES: Final = ("captions.tsv", "captions.tsv.gz", "captions.txt", "captions.csv", "Flickr8k.token.txt")
_ENDINGS: Final = (".captions.tsv", ".captions.tsv.gz")
_FORM: Final = "A line is name.jpg#0 TAB caption, or name.jpg TAB caption, or CSV under the header image,caption."

Captions = Mapping[str, tuple[str, ...]]
"""The captions of each picture by name, in the order of the file."""


def plainly(caption: str) -> str:
    """Return a caption in lower case and without punctuation: `A man's T-shirt .` becomes `a mans tshirt`."""
    kept = (letter for letter in caption.lower() if not unicodedata.category(letter).startswith("P"))
    return " ".join("".join(kept).split())


def read_captions(file: LineFile, plain: bool = False) -> Captions:
    """Read a captions file in any of the three formats; `plain` lower-cases and removes punctuation."""
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
    rows = csv.reader((f"{line}\n" for line in file), strict=True)
    try:
        next(rows)
        for row in rows:
            if len(row) != 2:
                what = "1 column" if len(row) == 1 else f"{len(row)} columns"
                raise DataError(
                    f"{file.at(rows.line_num)}: {what} instead of image,caption. "
                    "A caption with commas stands in double quotes."
                )
            yield rows.line_num, row[0].strip(), row[1].strip().replace("\n", " ")
    except csv.Error as error:
        raise DataError(f"{file.at(rows.line_num)}: not CSV ({error}).") from None


def _some(names: Iterable[str]) -> str:
    """List up to three names."""
    names = list(names)
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


class CaptionedImages(Pictures):
    """A folder of images and a captions file. Images are read on access; those without a caption are left out.

    `names` is a file with one image name per line, as Flickr8k's splits are given (`Flickr_8k.trainImages.txt`): only
    these images are used, in that order.
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
        self.unsaid = len([name for name in there - {*self._names} if Path(name).suffix.lower() in IMAGES])
        """The number of images without a caption."""
        missing = [name for name in self._names if name not in there]
        if missing:
            raise DataError(
                f"{captions} has captions of {counted(len(missing), 'image')} that {self._folder} does not have: "
                f"{_some(missing)}. Give the folder that has them, or remove their lines."
            )

    def __len__(self) -> int:
        return len(self._names)

    def identity(self) -> str:
        """Cover the captions file and the images' sizes and times."""
        stamps = ((self._folder / name).stat() for name in self._names)
        check = zlib.crc32(" ".join(f"{stamp.st_size} {stamp.st_mtime_ns}" for stamp in stamps).encode())
        return f"{type(self).__name__} {self._folder.resolve()} {self._pixels} {check:08x}\n{self._identity}"

    def image(self, index: int) -> NDArray[np.uint8]:
        """Read an image: `pixels` × `pixels` × 3."""
        return read_image(self._path(index), self._pixels)

    def whole(self, index: int) -> NDArray[np.uint8]:
        """Read an image in its original size."""
        return read_image(self._path(index))

    def called(self, index: int) -> str:
        """Return the name of an image in the folder."""
        return self._names[within(index, len(self))]

    def _path(self, index: int) -> Path:
        return self._folder / self.called(index)

    def captions(self, index: int) -> tuple[str, ...]:
        """Return the captions of an image."""
        return self._captions[self.called(index)]


def _said_how(plain: bool) -> str:
    """Return the part of an identity that distinguishes plain captions from unchanged ones."""
    return "\nplain" if plain else ""


def _captions_in(folder: Path) -> Path:
    found = [folder / name for name in _CAPTION_FILES if (folder / name).is_file()]
    if not found and not any(path.suffix.lower() in IMAGES for path in folder.rglob("*")):
        there = files_in(folder) if any(folder.iterdir()) else " It is empty."
        raise DataError(f"{folder} is a folder without images.{there}")
    if not found:
        raise DataError(
            f"{folder} has no captions file ({', '.join(_CAPTION_FILES)}). Give one after the folder. {_FORM}"
        )
    return found[0]


class RegionFeatures(Regions, Pictures):
    """Features of the regions of pictures (`regard.data.region_features`), and a captions file."""

    has = frozenset(("regions", "captions"))

    def __init__(self, features: Path, captions: Path | None = None, plain: bool = False) -> None:
        super().__init__(features)
        file = open_lines(str(captions if captions is not None else _captions_beside(features)))
        self._captions = read_captions(file, plain)
        known = set(self.names)
        unknown = [name for name in self._captions if name not in known]
        if unknown:
            raise DataError(
                f"{file.name} has captions of {counted(len(unknown), 'picture')} that {features} does not have: "
                f"{_some(unknown)}. Give the captions that belong to the features, or remove their lines."
            )
        _check_all_said(self.names, self._captions, str(features), file.name)
        status = features.stat()
        self._identity = (
            f"{features.resolve()} {status.st_size} {status.st_mtime_ns}\n{file.identity}{_said_how(plain)}"
        )

    def identity(self) -> str:
        """Cover the files' sizes and times."""
        return f"{type(self).__name__} {self._identity}"

    def captions(self, index: int) -> tuple[str, ...]:
        """Return the captions of a picture."""
        return self._captions[self.called(index)]


def _check_all_said(names: Iterable[str], captions: Captions, listed: str, file: str) -> None:
    silent = [name for name in names if name not in captions]
    if silent:
        raise DataError(
            f"{listed} has {counted(len(silent), 'picture')} without a caption in {file}: {_some(silent)}. "
            "Give the captions file that belongs to it."
        )


def captions_of(pictures: Path) -> Path:
    """Return the default captions file of a folder of images, or of a file of features."""
    return _captions_in(pictures) if pictures.is_dir() else _captions_beside(pictures)


def _captions_beside(features: Path) -> Path:
    stem = features.name.removesuffix(".npz")
    beside = [features.with_name(stem + ending) for ending in _ENDINGS]
    found = next((path for path in beside if path.is_file()), None)
    if found is None:
        raise DataError(f"No captions file {beside[1].name} next to {features}. Give one after it. {_FORM}")
    return found
