"""Writing files so that a crash leaves the old content or the new, never a mixture; and knowing a file again."""

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def digest(path: Path) -> str:
    """Return what tells the content of a file from any other's."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, sync, rename over it, sync the folder: a kill at any moment leaves old or new.

    A link stays one: what it leads to is written. What is no file, such as a pipe, is written to as it is.
    """
    path = path.resolve() if path.is_symlink() else path
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_bytes(content)
        return
    beside = path.with_name(f".{path.name}.writing")
    try:
        with open(beside, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and removals in a folder last through a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def folder_anew(folder: Path) -> Iterator[Path]:
    """Give a folder to write to that takes the place of this one once all is written, and is removed if it is not.

    A link stays one: what it leads to is replaced.
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
