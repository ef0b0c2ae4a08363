"""Read the files of a model folder, which may come from anybody.

A file of a folder is a regular file within it: a link that leads out of it, a pipe or a device is not opened, nor is a
file that is larger than its kind can be. What is wrong is raised as an OSError whose `strerror` completes a sentence
("… cannot be read: it leads out of the folder"), so that callers treat it like a file that is missing.

`parse_json` reads JSON of any content without an error other than ValueError.
"""

import errno
import json
import os
import stat
from pathlib import Path
from typing import Any, Final

from regard.errors import ConfigError

SMALL: Final = 1 << 18
"""Bytes of the largest index or configuration that is read."""
LARGE: Final = 1 << 26
"""Bytes of the largest vocabulary, list of names or record of a run that is read."""
MOST_SEARCHED: Final = {
    "beam": 1_000,
    "groups": 1_000,
    "min_length": 10_000,
    "max_length": 100_000,
    "max_ratio": 1_000.0,
    "length_penalty": 10.0,
    "coverage_penalty": 1_000.0,
    "patience": 1_000.0,
}
"""Limits of the search that a folder can ask for, far beyond all use: one that never ends is refused."""
_LONGEST_SHOWN: Final = 200


def member(folder: Path, name: str, most: int | None = None) -> Path:
    """Return the place of a file of a folder, links resolved; raise an OSError if it is none, or too large."""
    shown = str(folder / name)
    root = os.path.realpath(folder)
    try:
        path = os.path.realpath(os.path.join(root, name))
        found = os.stat(path)
    except ValueError:  # a zero byte
        raise OSError(errno.EINVAL, "its name is no file name", shown) from None
    if os.path.commonpath([root, path]) != root:
        raise OSError(errno.EPERM, "it leads out of the folder", shown)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "it is a pipe, a socket or a device, not a file", shown)
    if most is not None and found.st_size > most:
        raise OSError(errno.EFBIG, f"it has {found.st_size:,} bytes; {most:,} are the most for its kind", shown)
    return Path(path)


def read_member(folder: Path, name: str, most: int | None = SMALL) -> bytes:
    """Return the content of a file of a folder."""
    return member(folder, name, most).read_bytes()


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; what is nested too deeply or has numbers that are too long is a ValueError like any other."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def check_most(search: object) -> None:
    """Raise a ConfigError for a setting of the search, an attribute, whose number is beyond the limit of it."""
    for name, most in MOST_SEARCHED.items():
        value = getattr(search, name, 0)
        if abs(value) > most:
            limits = f"from {-most:g} to {most:g}" if name == "length_penalty" else f"at most {most:,g}"
            raise ConfigError(f"decoding.{name} is {shortened(value)}; it must be {limits}.")


def shortened(value: object) -> str:
    """Return what `repr` returns, cut in the middle if it is long, for messages."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number of thousands of digits"
    half = _LONGEST_SHOWN // 2
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:half]}…{text[-half:]}"
