"""Named arrays in memory-mapped files: the questions about pictures, or the objects in them, as numbers.

A cache is a folder: an .npy file for each array, and `arrays.json`. It is built under a temporary name and renamed, so
it is complete or absent.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.atomic_files import folder_anew, write_atomically
from regard.errors import DataError
from regard.folder_files import member, parse_json, read_member

INDEX: Final = "arrays.json"
_FORMAT: Final = 1

Arrays = Mapping[str, NDArray[Any]]


class ArrayCache:
    """A set of named arrays."""

    def __init__(self, arrays: Arrays, origin: str, fingerprint: str) -> None:
        self.arrays, self.origin, self.fingerprint = arrays, origin, fingerprint
        """`origin` identifies the inputs the arrays were made from, `fingerprint` is a checksum of their content."""

    @classmethod
    def open(cls, folder: Path) -> "ArrayCache":
        """Open an existing cache."""
        path = folder / INDEX
        try:
            record = parse_json(read_member(folder, INDEX))
            if record["format"] == _FORMAT:
                arrays = {name: _map(member(folder, f"{name}.npy"), shape) for name, shape in record["arrays"].items()}
                return cls(arrays, record["origin"], record["fingerprint"])
        except OSError as error:
            raise DataError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError, KeyError, AttributeError):
            raise DataError(f"{path} is damaged. Remove {folder}; it will be made anew.") from None
        raise DataError(f"{folder} was made by another version of regard. Remove it; it will be made anew.")

    @classmethod
    def build(cls, folder: Path, origin: str, arrays: Arrays) -> "ArrayCache":
        """Write arrays to a folder, replacing any existing cache."""
        digest = blake2b(digest_size=16)
        try:
            with folder_anew(folder) as building:
                for name, array in arrays.items():
                    digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
                    digest.update(np.ascontiguousarray(array).data)
                    np.save(building / f"{name}.npy", array)
                record = {
                    "format": _FORMAT,
                    "arrays": {name: list(array.shape) for name, array in arrays.items()},
                    "origin": _digest(origin),
                    "fingerprint": digest.hexdigest(),
                }
                write_atomically(building / INDEX, json.dumps(record, indent=2).encode() + b"\n")
        except OSError as error:
            raise DataError(f"Cannot write to {folder}: {(error.strerror or str(error)).lower()}.") from None
        return cls.open(folder)

    @classmethod
    def reuse_or_build(cls, folder: Path, origin: str, make: Callable[[], Arrays]) -> "ArrayCache":
        """Open the existing cache if it was made from the same inputs (`origin`), else build it."""
        try:
            cache = cls.open(folder)
        except DataError:
            return cls.build(folder, origin, make())
        return cache if cache.origin == _digest(origin) else cls.build(folder, origin, make())


def _digest(text: str) -> str:
    return blake2b(text.encode(), digest_size=16).hexdigest()


def _map(path: Path, shape: list[int]) -> NDArray[Any]:
    """Memory-map an array; an empty one cannot be mapped and is read instead."""
    array: NDArray[Any] = np.load(path, mmap_mode="r" if np.prod(shape) else None, allow_pickle=False).view(np.ndarray)
    if list(array.shape) != shape:
        raise ValueError
    return array
