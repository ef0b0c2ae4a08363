"""Which served model translates between which languages; asked anew for each request, since models are replaced."""

import functools
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import babel

from regard.data.languages import canonical
from regard.errors import ConfigError
from regard.serve.served_models import Served

_ALIASES: Final = {"pb": "pt-BR", "zt": "zh-Hant"}
"""Codes that LibreTranslate's clients also send."""


class NoRouteError(ConfigError):
    """A language, or a pair of languages, that no served model translates."""


class Route(NamedTuple):
    """How to translate between two languages."""

    source: str
    target: str
    served: Served
    tag: str | None


class Routes:
    """The pairs that are served at this moment. Of several models for a pair, the first one that is served has it."""

    def __init__(self, models: Iterable[Served]) -> None:
        self._routes: dict[tuple[str, str], Route] = {}
        for model in models:
            for pair in model.pairs:
                route = Route(pair.source, pair.target, model, pair.tag)
                self._routes.setdefault((pair.source, pair.target), route)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Source and target of all pairs."""
        return [*self._routes]

    @property
    def languages(self) -> list[str]:
        """All languages: first those that are read, then those that are only written."""
        return list(dict.fromkeys([*(source for source, _ in self.pairs), *(target for _, target in self.pairs)]))

    def targets(self, source: str) -> list[str]:
        """Return the languages that a language is translated to."""
        return [target for own, target in self.pairs if own == source]

    def known(self, code: str) -> str:
        """Return the served language that a code means: itself, or the only one that differs in script or region."""
        own = canonical(_ALIASES.get(code.lower(), code)) or code
        if own in self.languages:
            return own
        near = [each for each in self.languages if each.partition("-")[0] == own.partition("-")[0]]
        if len(near) == 1:
            return near[0]
        raise NoRouteError(f"{code} is not supported. {self._served()}")

    def find(self, source: str, target: str) -> Route | None:
        """Return the route between two served languages; None where both are the same."""
        if source == target:
            return None
        route = self._routes.get((source, target))
        if route is None:
            raise NoRouteError(f"No served model translates from {source} to {target}. {self._served()}")
        return route

    def candidates(self, target: str) -> list[str]:
        """Return the languages that a text may be detected as if it is to be translated to the target."""
        return [*(source for source, own in self.pairs if own == target), target]

    def _served(self) -> str:
        if not self._routes:
            return (
                "No served model says which languages it translates: set from_language and to_language under [data] in "
                "its config.toml."
            )
        return f"Served pairs: {', '.join(f'{source} → {target}' for source, target in self.pairs)}."


@functools.cache
def english_name(code: str) -> str:
    """Return the English name of a language; the code itself if it has none."""
    try:
        return babel.Locale.parse(code, sep="-").get_display_name("en") or code
    except (babel.UnknownLocaleError, ValueError):
        return str(babel.Locale("en").languages.get(code.partition("-")[0], code))


def codes(pairs: Sequence[tuple[str, str]], place: int) -> list[str]:
    """Return the distinct languages of one side of pairs."""
    return list(dict.fromkeys(pair[place] for pair in pairs))
