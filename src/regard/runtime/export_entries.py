"""The entries of export.json, checked as they are read: an export may come from anybody."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from regard.errors import ModelError
from regard.folder_files import shortened


class Entries:
    """An object of export.json; what is not as an export writes it is a ModelError that names the entry."""

    def __init__(self, found: Any, path: Path, name: str = "") -> None:
        """`path` is that of export.json, and `name` that of the object within it, both for messages."""
        self._path, self._name = path, name
        if not isinstance(found, dict):
            raise damaged(path, f"{name or 'it'} is {shortened(found)}, not an object")
        self._found: dict[str, Any] = found

    def __contains__(self, name: str) -> bool:
        return name in self._found

    def part(self, name: str) -> "Entries":
        """Return an object within this one."""
        return Entries(self._read(name), self._path, self._full(name))

    def flag(self, name: str) -> bool:
        """Return true or false."""
        value: bool = self._checked(name, lambda value: isinstance(value, bool), "true or false")
        return value

    def text(self, name: str) -> str:
        """Return a text."""
        value: str = self._checked(name, _is_text, "a text")
        return value

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        value: list[str] = self._checked(name, _all(_is_text), "a list of texts")
        return value

    def whole(self, name: str, least: int = 0, most: int = sys.maxsize) -> int:
        """Return a whole number."""
        value: int = self._checked(name, _is_whole(least, most), f"a whole number{_limits(least, most)}")
        return value

    def whole_or_none(self, name: str, least: int = 0, most: int = sys.maxsize) -> int | None:
        """Return a whole number, or None where there is null."""
        return None if self._read(name) is None else self.whole(name, least, most)

    def wholes(self, name: str, least: int = 0, most: int = sys.maxsize) -> list[int]:
        """Return a list of whole numbers."""
        wanted = f"a list of whole numbers{_limits(least, most)}"
        value: list[int] = self._checked(name, _all(_is_whole(least, most)), wanted)
        return value

    def number(self, name: str) -> float:
        """Return a number, whole or not."""
        return float(self._checked(name, _is_number, "a number"))

    def wrong(self, why: str) -> ModelError:
        """Return the error for entries that do not go together, or ask for too much."""
        return damaged(self._path, why)

    def refused(self, name: str, value: object, wanted: str) -> ModelError:
        """Return the error for an entry that is not what it must be."""
        return damaged(self._path, f"{self._full(name)} is {shortened(value)}; it must be {wanted}")

    def _checked(self, name: str, right: Callable[[object], bool], wanted: str) -> Any:
        value = self._read(name)
        if not right(value):
            raise self.refused(name, value, wanted)
        return value

    def _read(self, name: str) -> Any:
        if name not in self._found:
            raise damaged(self._path, f"it has no {self._full(name)}")
        return self._found[name]

    def _full(self, name: str) -> str:
        return f"{self._name}.{name}" if self._name else name


def damaged(path: Path, why: str = "") -> ModelError:
    """Return the error for a file that is not what an export wrote."""
    return ModelError(f"{path} is damaged{f' ({why})' * bool(why)}. Copy the folder again, or export the model anew.")


def _is_whole(least: int, most: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _all(right: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(map(right, value))


def _is_text(value: object) -> bool:
    """Half of a surrogate pair, which JSON can spell, could not be printed."""
    return isinstance(value, str) and not any("\ud800" <= character <= "\udfff" for character in value)


def _limits(least: int, most: int) -> str:
    return f" from {least:,} to {most:,}" if most < sys.maxsize else f" of at least {least:,}"
