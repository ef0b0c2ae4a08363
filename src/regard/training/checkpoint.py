"""Checkpoints that survive a kill at any moment.

```
state/
  step-00001200/             the last but one that the schedule asked for
  step-00001400/             the last one
    place.json               where the run was, the digest of every file beside it, and its own
    config.toml  weights.safetensors  optimizer.safetensors  average-….safetensors
    best.safetensors         the weights to use, as model.safetensors has them
  step-00001437-stopped/     made because the run was asked to stop: off the schedule, gone at the next on it
```

A checkpoint is written as `….writing` and synced; the rename to its own name is the one moment at which it begins to
exist. All else (model.safetensors, the end of metrics.jsonl, which older checkpoints are left) follows from the newest
checkpoint and is put right when the run is resumed. Removing begins with a rename too, so that half a checkpoint is
never taken for one. What did not change since the checkpoint before is linked, not written again.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from regard.atomic_files import sync_folder, write_synced
from regard.errors import TrainingError
from regard.folder_files import LARGE, parse_json, read_member
from regard.shapes import Tensor

PLACE = "place.json"
FORMAT = "regard-state-2"
NAME = re.compile(r"step-(\d+)(-stopped)?")
WRITING, REMOVING = ".writing", ".removing"


@dataclass(frozen=True, order=True)
class Name:
    """A checkpoint's name; sorted by age."""

    step: int
    scheduled: bool

    def __str__(self) -> str:
        return f"step-{self.step:08d}" + ("" if self.scheduled else "-stopped")


@dataclass(frozen=True)
class Saved:
    """A checkpoint that is whole."""

    path: Path
    name: Name
    place: dict[str, Any]
    digests: dict[str, str]

    def tensors(self, file: str, device: torch.device | None = None) -> dict[str, Tensor]:
        """Read one of its files."""
        read = safetensors.torch.load(read_member(self.path, file, most=None))
        return {name: tensor.to(device) for name, tensor in read.items()}


class Checkpoints:
    """The checkpoints of one run, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def names(self) -> list[Name]:
        """List the checkpoints there are, oldest first; what is being written or removed does not count."""
        found = (NAME.fullmatch(entry.name) for entry in self.folder.iterdir()) if self.folder.is_dir() else ()
        return sorted(Name(int(match[1]), match[2] is None) for match in found if match)

    def sweep(self) -> None:
        """Clear away what a killed process left half written or half removed."""
        for entry in list(self.folder.iterdir()) if self.folder.is_dir() else ():
            if entry.name.endswith((WRITING, REMOVING)):
                shutil.rmtree(entry)

    def latest(self) -> tuple[Saved | None, list[str]]:
        """Find the newest checkpoint that is whole; also say what is wrong with each newer one.

        Raises TrainingError where there are checkpoints and all of them are damaged.
        """
        wrong: list[str] = []
        for name in reversed(self.names()):
            try:
                return read(self.folder / str(name), name), wrong
            except DamagedError as damage:
                wrong.append(str(damage))
        if wrong:
            raise TrainingError(
                "No checkpoint can be read, so there is nothing to go on from:\n"
                + "\n".join(f"  {line}" for line in wrong)
                + "\nTrain anew with --overwrite, or into another folder."
            )
        return None, wrong

    def save(self, name: Name, place: Mapping[str, Any], files: Mapping[str, bytes | Path], old: Saved | None) -> Saved:
        """Write a checkpoint and make it the newest, then let go of those no longer needed.

        A file is given as its content, or as the path of the same file in the checkpoint `old`, to be linked.
        """
        final = self.folder / str(name)
        writing = final.with_name(final.name + WRITING)
        if writing.exists():
            shutil.rmtree(writing)
        self._make_folder()
        os.mkdir(writing)
        digests = {}
        for file, content in files.items():
            if isinstance(content, Path):
                assert old is not None
                link(content, writing / file)
                digests[file] = old.digests[file]
            else:
                write_synced(writing / file, content)
                digests[file] = _digest(content)
        record = {"format": FORMAT, "place": dict(place), "files": digests}
        record["digest"] = _digest_of(record)
        write_synced(writing / PLACE, json.dumps(record, indent=1, allow_nan=False).encode())
        sync_folder(writing)
        if final.exists():  # a damaged one, that this run had to go back behind
            self._remove(final)
        os.rename(writing, final)
        sync_folder(self.folder)
        self.let_go(name)
        return Saved(final, name, dict(place), digests)

    def _make_folder(self) -> None:
        if not self.folder.is_dir():
            os.mkdir(self.folder)
            sync_folder(self.folder.parent)

    def let_go(self, newest: Name) -> None:
        """Keep the newest and the last scheduled one before it, in case a disk damages the newest."""
        scheduled = [name for name in self.names() if name.scheduled and name < newest]
        for name in self.names():
            if name != newest and name not in scheduled[-1:]:
                self._remove(self.folder / str(name))

    def _remove(self, path: Path) -> None:
        removing = path.with_name(path.name + REMOVING)
        if removing.exists():
            shutil.rmtree(removing)
        os.rename(path, removing)
        shutil.rmtree(removing)


class DamagedError(Exception):
    """A checkpoint that is not whole; the message says what is wrong with it."""


def read(path: Path, name: Name) -> Saved:
    """Read a checkpoint's record and check it and every file against their digests."""
    if path.is_symlink() or path.parent.is_symlink():
        raise DamagedError(f"{path} is a link or within one, which training never makes.")
    try:
        record = parse_json(read_member(path, PLACE, LARGE))
        if record["format"] != FORMAT:
            raise DamagedError(f"{path} has the format {record['format']!r}, not {FORMAT!r}.")
        digest = record.pop("digest", None)  # older checkpoints have none
        if record["place"]["step"] != name.step or digest not in (None, _digest_of(record)):
            raise DamagedError(f"{path / PLACE} is damaged: its content is not what was written.")
        saved = Saved(path, name, record["place"], record["files"])
    except OSError as error:
        raise DamagedError(f"{path / PLACE} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise DamagedError(f"{path / PLACE} is damaged.") from None
    for file, digest in saved.digests.items():
        try:
            content = read_member(path, file, most=None)
        except OSError as error:
            raise DamagedError(f"{path / file} cannot be read: {error.strerror}.") from None
        if _digest(content) != digest:
            raise DamagedError(f"{path / file} is damaged: its content is not what was written.")
    return saved


def to_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """Serialise named tensors as safetensors."""
    return safetensors.torch.save({name: tensor.cpu().contiguous() for name, tensor in tensors.items()})


def publish(source: Path, target: Path) -> None:
    """Make `target` the same file as `source`; a kill leaves the old one or the new one."""
    if target.exists() and os.path.samefile(source, target):
        return  # renaming a link over another of the same file would do nothing, and leave both
    beside = target.with_name(f".{target.name}{WRITING}")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(beside)
    link(source, beside)
    os.replace(beside, target)
    sync_folder(target.parent)


def link(source: Path, target: Path) -> None:
    """Give a file a second name; copy it where the file system has no links."""
    try:
        os.link(source, target)
    except OSError:
        write_synced(target, source.read_bytes())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _digest_of(record: Mapping[str, Any]) -> str:
    return _digest(json.dumps(record, sort_keys=True).encode())
