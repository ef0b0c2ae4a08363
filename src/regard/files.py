"""Writing files so that a crash leaves the old content or the new, never a mixture."""

import os
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside the target, sync, rename over it, sync the folder: a kill at any moment leaves old or new."""
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
