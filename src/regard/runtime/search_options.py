"""The settings of the search: those of `[decoding]` in a model folder that a beam search has."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from regard.errors import ConfigError, did_you_mean
from regard.folder_files import check_most
from regard.runtime.export_entries import Entries
from regard.runtime.graphs import MANIFEST

BEAM = "beam"
"""The method that is offered here."""


@dataclass(frozen=True)
class SearchOptions:
    """How translations are searched; the names, defaults and meanings are those of the model's `[decoding]` section."""

    method: str = BEAM
    """Only beam search is offered here; the model's own setting is kept so that no other one is ignored unnoticed."""
    beam: int = 5
    """Hypotheses kept at each step; 1 is greedy search."""
    length_penalty: float = 1.0
    """alpha of Wu et al. 2016; 0 for none."""
    coverage_penalty: float = 0.0
    """beta of Wu et al. 2016; 0 for none."""
    patience: float = 0.0
    """Stop after patience × beam finished hypotheses (Kasai et al. 2022); 0: when no live one can beat them."""
    min_length: int = 0
    """Minimum number of tokens, without the end token."""
    max_length: int = 0
    """Maximum number of tokens, with the end token; 0 for the limit by max_ratio."""
    max_ratio: float = 2.0
    """Maximum number of tokens per source token, plus ten that are always allowed."""
    replace_unknown: bool = False
    """Replace unknown tokens by the source word or character with most attention (words, characters, spelled)."""
    keep: str = ""
    """Not offered here either."""

    @classmethod
    def of(cls, search: Mapping[str, Any]) -> "SearchOptions":
        """Read the entry `search` of export.json."""
        return read_options(Entries(search, Path(MANIFEST), "search"))

    def changed(self, assignments: Sequence[str]) -> "SearchOptions":
        """Return the options with settings as on the command line: `decoding.beam=3`, or `beam=3`."""
        kinds = {field.name: type(field.default) for field in fields(self)}
        changes: dict[str, Any] = {}
        for assignment in assignments:
            full, equals, value = assignment.partition("=")
            name = full.strip().removeprefix("decoding.")
            if not equals or name not in kinds:
                known = did_you_mean(name, kinds) or f" There are: {', '.join(kinds)}."
                raise ConfigError(f"{assignment!r} is no setting of the search, written NAME=VALUE.{known}")
            changes[name] = _value(name, value.strip(), kinds[name])
        return replace(self, **changes)

    def check(self, n_best: int = 1) -> None:
        """Raise a ConfigError for options that are invalid, or not offered here."""
        if self.method != BEAM:
            raise ConfigError(
                f"decoding.method is {self.method!r}, but without torch there is only beam search: "
                "set it to 'beam', or use regard translate with the model folder."
            )
        if self.keep:
            raise ConfigError(
                "decoding.keep is set, but terms can be kept only with torch: set it to '', or use regard translate "
                "with the model folder."
            )
        self._check_numbers()
        if n_best < 1:
            raise ConfigError(f"n_best is {n_best}; it must be at least 1.")
        if n_best > self.beam:
            raise ConfigError(
                f"n_best is {n_best} but decoding.beam is {self.beam}: a search returns at most as many hypotheses as "
                f"its beam has. Set the beam to {n_best} or more."
            )

    def _check_numbers(self) -> None:
        """Raise a ConfigError for numbers that are out of bounds."""
        if self.beam < 1:
            raise ConfigError(f"decoding.beam is {self.beam}; it must be at least 1 (1 is greedy search).")
        if not math.isfinite(self.length_penalty):
            raise ConfigError(f"decoding.length_penalty is {self.length_penalty}; it must be a finite number.")
        for name in ("coverage_penalty", "patience", "max_ratio", "min_length", "max_length"):
            if not 0 <= getattr(self, name) < math.inf:
                raise ConfigError(f"decoding.{name} is {getattr(self, name)}; it must be at least 0 and finite.")
        check_most(self)
        if 0 < self.max_length < self.min_length:
            raise ConfigError(
                f"decoding.min_length is {self.min_length} but decoding.max_length is {self.max_length}: "
                "the fewest tokens cannot be more than the most."
            )


def read_options(search: Entries) -> SearchOptions:
    """Read the entry `search` of export.json; what no search can be given is a ModelError that names it."""
    read: dict[type, Callable[[str], Any]] = {bool: search.flag, int: search.whole, float: search.number}
    read[str] = search.text
    given = [field for field in fields(SearchOptions) if field.name in search]
    options = SearchOptions(**{field.name: read[type(field.default)](field.name) for field in given})
    try:
        options._check_numbers()
    except ConfigError as error:
        raise search.wrong(str(error).removesuffix(".")) from None
    return options


def _value(name: str, text: str, kind: type) -> Any:
    if kind is bool:
        if text not in ("true", "false"):
            raise ConfigError(f"decoding.{name} is {text!r}; it must be true or false.")
        return text == "true"
    try:
        return text.strip("'\"") if kind is str else kind(text)
    except ValueError:
        number = "a whole number" if kind is int else "a number"
        raise ConfigError(f"decoding.{name} is {text!r}; it must be {number}.") from None
