"""Translated files, kept for a while to be fetched: bounded in number and size, under names that cannot be guessed."""

import contextlib
import os
import re
import shutil
import tempfile
import time
import uuid
import weakref
from pathlib import Path, PurePath

KEPT_FOR = 30 * 60.0
"""Seconds until a file is deleted."""
MOST_BYTES = 256 << 20
"""Of all files; the oldest ones go first."""
SHARED = "REGARD_TRANSLATED_FILES"
"""Environment variable with the folder that several worker processes share."""

_NAME = re.compile(r"[0-9a-f]{32}\.[\w.-]{1,120}")


class TranslatedFiles:
    """A private folder of files."""

    def __init__(self, kept_for: float = KEPT_FOR, most: int = MOST_BYTES) -> None:
        self._kept_for, self._most = kept_for, most
        own = None if SHARED in os.environ else tempfile.mkdtemp(prefix="regard-files-")
        self._folder = Path(own or os.environ[SHARED])
        self._delete = own and weakref.finalize(self, shutil.rmtree, own, ignore_errors=True)

    def add(self, name: str, content: bytes) -> str:
        """Keep a file, and return the name under which it can be fetched."""
        path = PurePath(name)
        stem = re.sub(r"[^\w-]+", "_", path.stem, flags=re.ASCII)[:100]
        own = f"{uuid.uuid4().hex}.{stem}{path.suffix}"
        (self._folder / f"{own}.part").write_bytes(content)
        (self._folder / f"{own}.part").rename(self._folder / own)
        self._clean()
        return own

    def get(self, name: str) -> bytes | None:
        """Return a file's content; None if there is none of this name, or no longer."""
        if not _NAME.fullmatch(name):
            return None
        self._clean()
        with contextlib.suppress(OSError):
            return (self._folder / name).read_bytes()
        return None

    def close(self) -> None:
        """Delete all files, unless other processes share them."""
        if self._delete:
            self._delete()

    def _clean(self) -> None:
        """Delete what is too old or too much."""
        kept, now = 0, time.time()
        for written, size, path in sorted(self._files(), reverse=True):
            kept += size
            if now - written > self._kept_for or kept > self._most:
                path.unlink(missing_ok=True)

    def _files(self) -> list[tuple[float, int, Path]]:
        found = []
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError):  # another process deletes them too
                found.append(((status := path.stat()).st_mtime, status.st_size, path))
        return found


def shown_name(name: str) -> str:
    """Return what a fetched file is called, without the part that makes its name unique."""
    return name.partition(".")[2]
