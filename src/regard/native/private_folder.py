"""A folder that only its user may write, and libraries in it that are what was put there.

A shared library is code, so the folder of compiled ones is as sensitive as a program in the user's home. Whoever could
write it, or replace a folder above it, could run code as this user. So the folder and every folder above it must belong
to this user or to root, and nobody else may write them; where everybody may (`/tmp`), the sticky bit must keep them
from replacing what is not theirs. Links are followed first: what is checked is where they lead.

A library's name ends in the SHA-256 of its content, which is compared before the library is loaded, with the file kept
open and loaded through its descriptor. This finds damage: a disk that was full, a copy that was cut off. It is no
signature: who could write the folder could choose names too, and keeping others out is what the folder's owner and
mode are for.
"""

import contextlib
import ctypes
import errno
import hashlib
import os
import stat
from pathlib import Path


class UnsafeError(OSError):
    """A place that others could write; its text says which, and why."""

    def __str__(self) -> str:
        return str(self.strerror)


def private_folder(path: Path) -> Path:
    """Make a folder that only this user may write, unless it is there; return where it is, links resolved.

    Raises UnsafeError if somebody else could write it, and OSError if it cannot be made.
    """
    real = Path(os.path.realpath(path))
    _make(real)
    for folder in (*reversed(real.parents), real):
        _check(folder, os.lstat(folder), last=folder == real)
    return real


def _make(folder: Path) -> None:
    """Make a folder and those above it, each for this user alone."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make(folder.parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)


def _check(path: Path, found: os.stat_result, *, last: bool) -> None:
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    if found.st_uid != os.geteuid() and (last or found.st_uid != 0):
        raise UnsafeError(errno.EPERM, f"{path} belongs to another user")
    sticky = found.st_mode & stat.S_ISVTX and not last
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not sticky:
        raise UnsafeError(errno.EPERM, f"{path} can be written by other users (chmod go-w would end that)")


def kept(folder: Path, name: str) -> list[Path]:
    """Return the libraries of a name in a private folder: one, or none, or several that were made at once."""
    return sorted(folder.glob(f"{name}-{'?' * 64}.so"))


def keep(folder: Path, name: str, made: Path) -> Path:
    """Move a library into a private folder, under a name that ends in the checksum of its content."""
    made.chmod(0o600)
    path = folder / f"{name}-{hashlib.sha256(made.read_bytes()).hexdigest()}.so"
    made.replace(path)
    return path


def load(path: Path) -> ctypes.CDLL:
    """Load a library of a private folder if it is what was kept under this name, else raise UnsafeError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_library(path, descriptor)
        opened = f"/proc/self/fd/{descriptor}"
        found = ctypes.CDLL(opened if os.path.exists(opened) else str(path))
    except OSError:
        os.close(descriptor)
        raise
    # The descriptor stays open for as long as the process lives: the loader takes equal names for the same library.
    return found


def _check_library(path: Path, descriptor: int) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise UnsafeError(errno.EPERM, f"{path} is not a file")
    if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UnsafeError(errno.EPERM, f"{path} can be written by other users")
    with open(descriptor, "rb", closefd=False) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != path.stem.rpartition("-")[2]:
            raise UnsafeError(errno.EIO, f"{path} is damaged")
