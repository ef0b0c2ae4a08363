"""What `regard translate` is asked for, and what it makes of some lines."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

INTO = "translation"
"""The field or column that translations are written to."""


@dataclass(frozen=True)
class TranslateOptions:
    """What `regard translate` was asked for, as the command line has it."""

    models: tuple[str, ...]
    device: str = "auto"
    beam: int | None = None
    n_best: int = 1
    batch: int | None = None
    settings: tuple[str, ...] = ()
    fast: bool = False
    to: str | None = None
    keep: str | None = None
    glossary: tuple[str, ...] = ()
    pairs: bool = False
    reverse: bool = False
    tag: str = ""
    field: str | None = None
    """The field to read where lines are JSON objects."""
    into: str = INTO

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> "TranslateOptions":
        """Return those that JSON had, which knows no tuples."""
        own: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in read.items()}
        return cls(**own)


class Output(NamedTuple):
    """What became of a block of lines."""

    rows: list[str]
    left_out: int = 0
    """Lines without a pair, where pairs are written."""
    error: Exception | None = None
    """What is wrong with the line after the last that was translated."""


def added(into: str, n_best: int) -> tuple[str, ...]:
    """Name the fields that a line of JSON gains."""
    return (into,) if n_best == 1 else (into, f"{into}_score", f"{into}_n_best", f"{into}_n_best_scores")
