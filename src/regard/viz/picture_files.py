"""Write figures: the suffix chooses the format, writing is atomic, and errors are clear."""

import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path

from regard.atomic_files import write_atomically
from regard.errors import DisplayError


class DisplayWarning(UserWarning):
    """A figure was written, but something in it is not as it should be."""


def check_suffix(path: Path, allowed: Sequence[str]) -> str:
    """Return the suffix in lower case; raise if it is not allowed."""
    suffix = path.suffix.lower()
    if suffix not in allowed:
        got = f"files of kind {suffix!r}" if suffix else "a file without a suffix"
        raise DisplayError(f"Cannot save {path}: {got} cannot be written. Use one of {', '.join(allowed)}.")
    return suffix


def write_output(path: Path, content: bytes) -> None:
    """Write a file; if that fails, the old one stays."""
    if path.is_dir():
        raise DisplayError(f"Cannot write {path}: Is a directory.")
    try:
        write_atomically(path, content)
    except OSError as error:
        raise DisplayError(f"Cannot write {path}: {error.strerror}.") from error


def warn(notes: Iterable[str]) -> None:
    """Issue notes as Python warnings attributed to the caller of the drawing function."""
    for note in notes:
        warnings.warn(note, DisplayWarning, stacklevel=3)
