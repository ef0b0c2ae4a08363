"""metrics.jsonl: one line of JSON for every so many steps, and one for every validation."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.atomic_files import write_atomically
from regard.folder_files import parse_json, read_member


class Metrics:
    """A file that lines are added to; after a resume it holds what an uninterrupted run would have written."""

    def __init__(self, path: Path, last_step: int) -> None:
        """Cut what lies beyond `last_step`, and the half line that a kill may have left."""
        self.path = path
        old = read_member(path.parent, path.name, most=None) if os.path.lexists(path) else None
        kept = b"".join(line for line in (old or b"").splitlines(keepends=True) if _step(line) <= last_step)
        if kept != old:
            write_atomically(path, kept)
        self._file = open(path, "ab")  # noqa: SIM115 - closed by close()

    def add(self, record: Mapping[str, Any]) -> None:
        """Add a line; it is there for readers at once, and safe from a power cut after `sync`."""
        self._file.write(json.dumps(record, allow_nan=False).encode() + b"\n")
        self._file.flush()

    def sync(self) -> None:
        """Make everything added so far last."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Let go of the file."""
        self._file.close()


def _step(line: bytes) -> float:
    try:
        return float(parse_json(line)["step"]) if line.endswith(b"\n") else float("inf")
    except (ValueError, KeyError, TypeError, OverflowError):
        return float("inf")
