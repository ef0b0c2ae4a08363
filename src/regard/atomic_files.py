"""Write files atomically: after a crash there is the old content or the new, never a mixture. Also file checksums."""

import contextlib
import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from regard.errors import DisplayError


def digest(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write a temporary file, fsync it, rename it over the target and fsync the folder, so that a kill is harmless.

    A symbolic link is kept, and its target written. Anything but a regular file, such as a pipe, is written directly.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    beside = path.with_name(f".{path.name}.writing")
    try:
        write_synced(beside, content)
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and fsync it; until `sync_folder`, a power cut may still take its name."""
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def file_anew(path: Path) -> Iterator[IO[bytes]]:
    """Give a file to write to that takes the place of this one once all is written, and is removed if it is not.

    Only one process may write it at a time; what a killed one has left is overwritten. Links and pipes are treated as
    in `write_atomically`.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        with open(path, "wb") as pipe:
            yield pipe
        return
    beside = path.with_name(f".{path.name}.writing")
    with _locked(beside, path) as file:
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            os.replace(beside, path)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise
    sync_folder(path.parent)


def _locked(path: Path, what: Path) -> IO[bytes]:
    """Open an empty file that no other process writes; the lock goes with the process, however it ends."""
    while True:
        file = os.fdopen(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o666), "wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            raise DisplayError(f"Cannot write {what}: another process is writing it.") from None
        except OSError:
            pass  # a file system without locks
        # Whoever had the lock before may have renamed or removed the file since it was opened here.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.stat(path), os.fstat(file.fileno())):
                file.truncate(0)
                return file
        file.close()


def sync_folder(folder: Path) -> None:
    """Fsync a folder, so that renames and removals in it survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_anew(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces this one on success, and is removed on failure.

    A symbolic link is kept, and its target replaced.
    """
    folder = folder.resolve() if folder.is_symlink() else folder
    building, old = folder.with_name(f".{folder.name}.building"), folder.with_name(f".{folder.name}.old")
    leftovers = building, old
    try:
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
        building.mkdir(parents=True)
        yield building
        if folder.exists():
            folder.rename(old)
        building.rename(folder)
        sync_folder(folder.parent)
    finally:
        for leftover in leftovers:
            shutil.rmtree(leftover, ignore_errors=True)
