"""Shards: parts of one output that are made apart, on any machines and in any order, and joined.

A shard is a contiguous part of the input's lines. Its borders fall on multiples of the 1,024 lines that one run
translates at once, so that the same lines are batched together as there and the joined output is the same.

A finished shard is two files, `part-00002-of-00008.txt` and a manifest, `_part-00002-of-00008.json`, which tells what
the shard was made of and has its checksum. The manifest is written last, and neither is ever there in part.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from regard import __version__
from regard.atomic_files import digest, file_anew, write_atomically
from regard.batch.translate_options import TranslateOptions
from regard.data.tokenizers import INDEX
from regard.decoding.line_reader import BLOCK
from regard.decoding.terminology.glossary import read_glossary
from regard.decoding.vocabulary_shortlist import SHORTLIST
from regard.errors import ConfigError, DataError
from regard.models.model_folder import CONFIG, WEIGHTS, open_folder

MODEL_FILES = (CONFIG, WEIGHTS, INDEX, SHORTLIST)
"""What a translation depends on in a model folder; the index of the tokenizers has the checksums of their files."""
LISTED = 20
"""Missing shards named in a message, at most."""


@dataclass(frozen=True)
class Shard:
    """Which of how many."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> "Shard":
        """Read `2/8`."""
        number, slash, count = text.partition("/")
        digits = all(part.isascii() and part.isdecimal() for part in (number, count))
        if not slash or not digits or not 1 <= int(number) <= int(count):
            raise ConfigError(f"--shard is {text!r}: write which of how many, such as 1/8 to 8/8.")
        return cls(int(number), int(count))

    def lines(self, total: int) -> range:
        """Return the numbers of its lines, counted from 1: blocks of 1,024, shared as evenly as that allows."""
        blocks = -(-total // BLOCK)
        first, end = (min(number * blocks // self.count * BLOCK, total) for number in (self.number - 1, self.number))
        return range(first + 1, end + 1)

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"


@dataclass(frozen=True)
class Manifest:
    """What is told of a finished shard."""

    part: str
    """The name of its file."""
    made_of: dict[str, Any]
    """All that its content depends on, by the names that users know: the same for all shards of one output."""
    size: int
    """Bytes."""
    sha256: str
    left_out: int
    """Lines without a pair, where pairs are written."""

    @classmethod
    def read(cls, path: Path) -> "Manifest":
        """Read one; raise a DataError for a file that is none."""
        try:
            found = json.loads(path.read_bytes())
            if [*found] == [field.name for field in fields(cls)]:
                return cls(**found)
        except ValueError:
            pass
        raise DataError(f"{path} is not the manifest of a shard: remove it, and make the shard again.")


def made_of(options: TranslateOptions, lines: int, checksum: str, count: int) -> dict[str, Any]:
    """Tell all that the content of a shard depends on; `checksum` is that of the input."""
    own = asdict(options)
    models, _ = own.pop("models"), own.pop("device")
    glossary = read_glossary(own["glossary"]) if own["glossary"] else None
    own["glossary"] = None if glossary is None else sha256(json.dumps(glossary).encode()).hexdigest()
    own["set"] = own.pop("settings")
    told = {
        "regard": __version__,
        "number of shards": count,
        "input": {"lines": lines, "sha256": checksum},
        "model": [_checksums(Path(folder)) for folder in models],
        **{f"--{name.replace('_', '-')}": value for name, value in own.items()},
    }
    return {name: list(value) if isinstance(value, tuple) else value for name, value in told.items()}


def _checksums(folder: Path) -> dict[str, str]:
    open_folder(folder)  # what is no model folder is refused
    return {name: digest(folder / name) for name in MODEL_FILES if (folder / name).is_file()}


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Name what differs; what is short, with what it was and is."""
    told = []
    for name in [*old, *(name for name in new if name not in old)]:
        before, after = old.get(name), new.get(name)
        if before == after:
            continue
        short = all(not isinstance(value, dict) and len(_shown(value)) < 40 for value in (before, after))
        short = short and name not in ("model", "--glossary")
        told.append(f"{name}: {_shown(before)} → {_shown(after)}" if short else f"another {name}")
    return ", ".join(told)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(str, value)) or "none"
    return "none" if value in (None, "") else str(value)


class Writing:
    """A shard that is being written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.checksum, self.size = file, sha256(), 0

    def write(self, text: str) -> None:
        """Write some of it."""
        content = text.encode("utf-8", "replace")
        self._file.write(content)
        self.checksum.update(content)
        self.size += len(content)


class ShardFolder:
    """A folder of shards that are all made of the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, shard: Shard, ending: str) -> Path:
        """Return the file of a shard."""
        return self.folder / f"part-{shard.number:05}-of-{shard.count:05}{ending}"

    def _manifest(self, shard: Shard) -> Path:
        return self.folder / f"_{self.part(shard, '.json').name}"

    def _manifests(self) -> dict[Path, Manifest]:
        return {path: Manifest.read(path) for path in sorted(self.folder.glob("_part-*-of-*.json"))}

    def check(self, made: Mapping[str, Any]) -> None:
        """Raise a ConfigError where a finished shard was made of something else."""
        for manifest in self._manifests().values():
            if manifest.made_of != made:
                raise ConfigError(
                    f"{self.folder / manifest.part} was made of something else "
                    f"({_differences(manifest.made_of, made)}). Choose another folder for --output, or remove this one."
                )

    def is_finished(self, shard: Shard) -> bool:
        """Say whether a shard is there."""
        path = self._manifest(shard)
        if not path.is_file():
            return False
        manifest = Manifest.read(path)
        part = self.folder / manifest.part
        return part.is_file() and part.stat().st_size == manifest.size

    @contextmanager
    def writing(self, shard: Shard, ending: str) -> Iterator[Writing]:
        """Give a shard to be written: the file is there once all of it is, and the shard once `finish` is called."""
        with file_anew(self.part(shard, ending)) as file:
            yield Writing(file)

    def finish(self, shard: Shard, ending: str, made: dict[str, Any], written: Writing, left_out: int) -> None:
        """Write the manifest of a shard."""
        self.check(made)  # others may have been finished meanwhile
        part = self.part(shard, ending).name
        manifest = Manifest(part, made, written.size, written.checksum.hexdigest(), left_out)
        content = json.dumps(asdict(manifest), indent=1, ensure_ascii=False) + "\n"
        write_atomically(self._manifest(shard), content.encode())

    def all(self) -> list[tuple[Path, Manifest]]:
        """Return all parts in order; raise a DataError where one is missing, damaged or made of something else."""
        manifests = [*self._manifests().values()]
        if not manifests:
            what = "has no finished shard" if self.folder.is_dir() else "is not a folder"
            raise DataError(f"{self.folder} {what}: make the shards first (regard translate --shard).")
        first = manifests[0]
        for other in manifests:
            if other.made_of != first.made_of:
                raise DataError(
                    f"{self.folder / first.part} and {self.folder / other.part} were made of different things "
                    f"({_differences(first.made_of, other.made_of)}). Remove the wrong one, and make it again."
                )
        count = first.made_of["number of shards"]
        shards = [Shard(number, count) for number in range(1, count + 1)]
        missing = [str(shard) for shard in shards if not self.is_finished(shard)]
        if missing:
            named = ", ".join(missing[:LISTED]) + (", …" if len(missing) > LISTED else "")
            raise DataError(
                f"{self.folder} lacks {len(missing):,} of {count:,} shards: {named}. "
                "Make each by the command that made the others, with its own --shard."
            )
        found = [Manifest.read(self._manifest(shard)) for shard in shards]
        for shard, manifest in zip(shards, found, strict=True):
            if digest(self.folder / manifest.part) != manifest.sha256:
                raise DataError(
                    f"{self.folder / manifest.part} is not what was written: remove it, and make shard {shard} again."
                )
        return [(self.folder / manifest.part, manifest) for manifest in found]
