"""Pictures in memory-mapped files, painted or decoded once: pixels as bytes, or region features.

A cache is a folder: `pictures` (all of them, concatenated), `numbers` (the picture of each caption, or the class of
each picture: 32 bits) and `pictures.json`. It is built under a temporary name and renamed, so it is complete or absent.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import folder_anew, write_atomically
from regard.data.corpus import Corpus
from regard.data.pair import Pair
from regard.data.pictures import Pictures, Spoken
from regard.data.tokenizers import Tokenizers
from regard.errors import DataError
from regard.folder_files import member, parse_json, read_member

INDEX: Final = "pictures.json"
_FORMAT: Final = 1
_PIXELS, _FEATURES = "|u1", "<f4"
_AT_ONCE: Final = 256


@dataclass(frozen=True)
class PictureIndex:
    """The content of pictures.json."""

    format: int
    shape: tuple[int, ...]
    """Pictures × rows × columns × channels, or pictures × regions × width."""
    dtype: str
    numbers: int
    origin: str
    """Identifies the source, without reading the pictures."""
    fingerprint: str
    """A checksum of the pictures and numbers."""


class PictureCache:
    """The memory-mapped pictures of a source."""

    def __init__(self, folder: Path, index: PictureIndex) -> None:
        self.index = index
        self.pictures: NDArray[Any] = _map(folder / "pictures", index.dtype, tuple(index.shape))
        self.numbers: NDArray[Any] = _map(folder / "numbers", "<i4", (index.numbers,))

    def __len__(self) -> int:
        return len(self.pictures)

    @property
    def fingerprint(self) -> str:
        """A checksum: caches with the same fingerprint have the same content."""
        return self.index.fingerprint

    @classmethod
    def open(cls, folder: Path) -> "PictureCache":
        """Open an existing cache."""
        path = folder / INDEX
        try:
            record = parse_json(read_member(folder, INDEX))
            if record["format"] == _FORMAT:
                return cls(folder, PictureIndex(**record))
        except OSError as error:
            raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError, KeyError):
            raise DataError(f"{path} is damaged. Remove {folder}; it will be made anew.") from None
        raise DataError(f"{folder} was made by another version of regard. Remove it; it will be made anew.")

    @classmethod
    def build(cls, folder: Path, pictures: Pictures, numbers: NDArray[Any]) -> "PictureCache":
        """Read all pictures of a source into a folder, replacing any existing cache."""
        try:
            with folder_anew(folder) as building:
                _write(building, pictures, numbers.astype("<i4"))
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise DataError(f"Cannot write the pictures to {folder}: {reason}.") from None
        return cls.open(folder)

    @classmethod
    def reuse_or_build(cls, folder: Path, pictures: Pictures, numbers: NDArray[Any]) -> "PictureCache":
        """Open the existing cache if it was made from the same inputs, else build it."""
        try:
            cache = cls.open(folder)
        except DataError:
            return cls.build(folder, pictures, numbers)
        if cache.index.origin == _digest(pictures.identity()) and np.array_equal(cache.numbers, numbers):
            return cache
        return cls.build(folder, pictures, numbers)


class Captions(Corpus):
    """All captions of a source of pictures, as a corpus of targets without sources."""

    paired = False

    def __init__(self, pictures: Pictures) -> None:
        pictures.require("captions")
        self.name = pictures.name
        self.captions: list[tuple[str, ...]] = [*pictures.every("captions")]
        self._identity = pictures.identity()
        if not any(self.captions):
            raise DataError(f"{self.name} is empty: there is nothing to learn from.")

    def __iter__(self) -> Iterator[Pair]:
        return (Pair("", caption) for captions in self.captions for caption in captions)

    def identity(self) -> str:
        """Distinguish the captions from their pictures."""
        return f"{type(self).__name__}\n{self._identity}"

    def owners(self, tokenizers: Tokenizers, max_length: int, left_out: int) -> NDArray[np.int32]:
        """Return the picture number of each caption that the token cache kept."""
        owners = np.repeat(np.arange(len(self.captions), dtype=np.int32), [len(each) for each in self.captions])
        if not left_out:
            return owners
        encoded = tokenizers.target.encode_all([pair.target for pair in self])
        return owners[[len(ids) <= max_length for ids in encoded]]

    def named(
        self, spoken: Iterable[Sequence[Spoken]], tokenizers: Tokenizers, max_length: int, things: int
    ) -> NDArray[np.bool_]:
        """Return whether a token names an object: kept captions × tokens × objects.

        `spoken` has the objects that each word names; a token names what its word does. The end token names nothing.
        """
        encoded = tokenizers.target.encode_all([pair.target for pair in self])
        said = [words for each in spoken for words in each]
        kept = [(ids, words) for ids, words in zip(encoded, said, strict=True) if len(ids) <= max_length]
        named = np.zeros((len(kept), 1 + max(len(ids) for ids, _ in kept), things), np.bool_)
        for row, (ids, words) in zip(named, kept, strict=True):
            for token, word in zip(row, tokenizers.target.words(ids), strict=False):
                token[list(words[word]) if word >= 0 else []] = True
        return named


def labels_of(pictures: Pictures) -> NDArray[np.int32]:
    """Return the class of each picture."""
    return np.array([pictures.label(index) for index in range(len(pictures))], np.int32)


def read_pictures(pictures: Pictures, indices: Sequence[int]) -> NDArray[Any]:
    """Return several pictures in the form a model reads: pixels, or region features."""
    if "image" in pictures.has:
        return pictures.images(indices)
    return np.stack([pictures.regions(index) for index in indices])


def _write(folder: Path, pictures: Pictures, numbers: NDArray[Any]) -> None:
    digest = blake2b(numbers.tobytes(), digest_size=16)
    shape: tuple[int, ...] = ()
    dtype = _PIXELS if "image" in pictures.has else _FEATURES
    with open(folder / "pictures", "wb") as file:
        for start in range(0, len(pictures), _AT_ONCE):
            some = read_pictures(pictures, range(start, min(start + _AT_ONCE, len(pictures)))).astype(dtype)
            if shape and some.shape[1:] != shape:
                raise DataError(f"{pictures.name} has pictures of different sizes: {shape} and {some.shape[1:]}.")
            shape = some.shape[1:]
            content = some.tobytes()
            digest.update(content)
            file.write(content)
    (folder / "numbers").write_bytes(numbers.tobytes())
    index = PictureIndex(
        format=_FORMAT,
        shape=(len(pictures), *shape),
        dtype=dtype,
        numbers=len(numbers),
        origin=_digest(pictures.identity()),
        fingerprint=digest.hexdigest(),
    )
    write_atomically(folder / INDEX, json.dumps(asdict(index), indent=2).encode() + b"\n")


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _map(path: Path, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    try:
        size, wanted = path.stat().st_size, int(np.prod(shape)) * np.dtype(dtype).itemsize
        if size != wanted:
            raise DataError(
                f"{path} is damaged: it has {size:,} bytes, not {wanted:,}. Remove {path.parent}; it will be made anew."
            )
        return np.memmap(member(path.parent, path.name), dtype, "r", shape=shape).view(np.ndarray)
    except OSError as error:
        raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
