"""Registries of named parts: a small dict with a decorator. Tests sweep over them, `regard list` prints them."""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from regard.errors import ConfigError, did_you_mean

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """Maps the name a user types to the part it stands for.

    >>> scores: Registry[type] = Registry("attention score", "scores")
    >>> @scores.register("dot")
    ... class Dot: ...
    """

    def __init__(self, noun: str, plural: str) -> None:
        """`noun` names one member in errors, `plural` is its name in `regard list`."""
        self.noun = noun
        self.plural = plural
        self._parts: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        """Register the decorated part under a name; a name can be used only once."""
        if name in self._parts:
            raise ValueError(f"{self.noun} {name!r} is registered twice")

        def enter(part: T) -> T:
            self._parts[name] = part
            return part

        return enter

    def __getitem__(self, name: str) -> T:
        try:
            return self._parts[name]
        except KeyError:
            hint = did_you_mean(name, self._parts)
            raise ConfigError(f"No {self.noun} named {name!r}.{hint} (regard list {self.plural} shows all)") from None

    def __contains__(self, name: object) -> bool:
        return name in self._parts

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)
