"""The classes of a classifier, by name, in a model folder."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from regard.atomic_files import write_atomically
from regard.errors import ModelError
from regard.folder_files import parse_json, read_member

FILE: Final = "labels.json"


@dataclass(frozen=True)
class Labels:
    """The names of the classes, in the order of a model's outputs."""

    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of classes."""
        return len(self.names)

    def save(self, folder: Path) -> None:
        """Write them into a model folder."""
        write_atomically(folder / FILE, json.dumps(self.names, ensure_ascii=False, indent=2).encode() + b"\n")

    @classmethod
    def load(cls, folder: Path) -> "Labels":
        """Read what `save` wrote."""
        path = folder / FILE
        try:
            names: Sequence[str] = parse_json(read_member(folder, FILE))
            "".join(names).encode()
        except FileNotFoundError:
            raise ModelError(f"{path} is missing: {folder} is no classifier's folder, or not a whole one.") from None
        except OSError as error:
            raise ModelError(f"Cannot read {path}: {(error.strerror or str(error)).lower()}.") from None
        except (ValueError, TypeError):
            names = ()
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            raise ModelError(f"{path} is damaged. Copy the model folder again, or train anew.")
        return cls(tuple(names))
