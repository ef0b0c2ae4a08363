"""Read, check, override and write the dataclasses of `regard.config`; unknown names get a hint."""

import ast
import dataclasses
import functools
import inspect
import json
import math
import re
import textwrap
import tomllib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

from regard.config import Config, DecodingConfig
from regard.errors import ConfigError
from regard.folder_files import SMALL, shortened

NONE = "none"
"""How an absent part is written (`model.attention = "none"`)."""
_QUOTED = re.compile(rb'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_DEEPEST = 100
"""Most dots in a line, quoted texts left out: parsing a key of many parts takes the square of their number."""

_TOO_LARGE = 1 << 63
"""No setting needs a number that has no place in 64 bits."""

C = TypeVar("C")


@dataclass(frozen=True)
class Setting:
    """One setting: its dotted name, type, default and help."""

    name: str
    type: str
    default: Any
    help: str


def read_toml(path: Path) -> Config:
    """Read a configuration file; settings that it lacks keep their defaults."""
    try:
        with open(path, "rb") as file:
            content = file.read(SMALL + 1)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.") from None
    return parse_toml(content, path)


def parse_toml(content: bytes, path: Path) -> Config:
    """Parse the content of a configuration file."""
    if len(content) > SMALL:
        raise ConfigError(f"{path} is no configuration: it has more than {SMALL:,} bytes.")
    if any(line.count(b".") > _DEEPEST for line in _QUOTED.sub(b"", content).splitlines()):
        raise ConfigError(f"{path} is no configuration: it has a name of more than {_DEEPEST} parts.")
    try:
        values = tomllib.loads(content.decode())
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    except RecursionError:
        raise ConfigError(f"{path} is not valid TOML: it is nested too deeply.") from None
    try:
        return from_dict(Config, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def from_dict(kind: type[C], values: Mapping[str, Any], path: str = "", base: C | None = None) -> C:
    """Build a configuration from nested dicts; with a base, missing settings are taken from it."""
    hints = typing.get_type_hints(kind)
    given: dict[str, Any] = {}
    for name, value in values.items():
        full = f"{path}.{name}" if path else name
        if name not in hints:
            raise ConfigError(f"Unknown setting {shortened(full)}.{_hint(full)} (regard list settings shows all)")
        given[name] = _parse(hints[name], value, full, None if base is None else getattr(base, name))
    return kind(**given) if base is None else dataclasses.replace(base, **given)  # type: ignore[type-var]


def to_dict(config: object) -> dict[str, Any]:
    """Return nested dicts of TOML types; `from_dict` restores an equal configuration."""
    plain: dict[str, Any] = {}
    for name in _names(type(config)):
        value = getattr(config, name)
        if value is None:
            plain[name] = NONE
        elif dataclasses.is_dataclass(value):
            plain[name] = to_dict(value)
        else:
            plain[name] = list(value) if isinstance(value, tuple) else value
    return plain


def to_toml(config: Config) -> str:
    """Return the complete configuration as TOML."""
    return "\n".join(_toml_lines(to_dict(config), "")) + "\n"


def toml_value(value: Any) -> str:
    """Format a number, string, boolean or list of strings as TOML."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    # JSON's scalars and lists of strings are valid TOML, except for one control character that JSON does not escape.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def override(config: Config, assignments: Iterable[str]) -> Config:
    """Apply assignments such as `training.epochs=3`; values are parsed as TOML if possible, else taken as text."""
    absent: set[str] = set()
    for assignment in assignments:
        name, equals, text = assignment.partition("=")
        if not equals or not name.strip():
            raise ConfigError(f"{assignment!r} sets nothing: write NAME=VALUE, such as training.epochs=3.")
        value = _literal(text.strip())
        if not isinstance(value, list | str) and name.strip() in _lists():
            value = [text.strip()]  # as typed: a number would lose the last zero of 0.10
        config = assign(config, name.strip(), value)
        group = next((group for group in absent if name.strip().startswith(f"{group}.")), None)
        if group is not None:
            raise ConfigError(f"{group}={NONE} and {assignment} contradict each other: leave one of them out.")
        absent = absent | {name.strip()} if value == NONE else absent - {name.strip()}
    return config


def search_options(own: DecodingConfig, changes: Iterable[str] | None) -> DecodingConfig:
    """Return a model's decoding settings with changes of the form `decoding.NAME=VALUE`."""
    for change in changes or []:
        if not change.startswith("decoding."):
            raise ConfigError(f"{change!r} cannot be changed in a trained model: only decoding settings can.")
    return override(Config(decoding=own), [*(changes or [])]).decoding


def assign(config: Config, name: str, value: Any) -> Config:
    """Change one setting, given by its dotted name."""
    nested = value
    for part in reversed(name.split(".")):
        nested = {part: nested}
    return from_dict(Config, nested, base=config)


def differences(old: Config, new: Config) -> list[str]:
    """List the differences, each as `name: old → new`."""
    before, after = dict(_flat(to_dict(old))), dict(_flat(to_dict(new)))
    names = [*before, *(name for name in after if name not in before)]
    return [
        f"{name}: {_shown(before.get(name))} → {_shown(after.get(name))}"
        for name in names
        if before.get(name) != after.get(name)
    ]


def describe(kind: type = Config, path: str = "", defaults: object = None) -> Iterator[Setting]:
    """Yield every setting with its help, the string under its field."""
    helps = _field_helps(kind)
    hints = typing.get_type_hints(kind)
    defaults = kind() if defaults is None else defaults
    for name, hint in hints.items():
        full = f"{path}.{name}" if path else name
        inner = _dataclass_in(hint)
        if inner is not None:
            if name in helps:
                yield Setting(full, f"a group of settings or {NONE!r}", (), helps[name])
            yield from describe(inner, full, getattr(defaults, name))
        else:
            yield Setting(full, _type_name(hint), getattr(defaults, name), helps[name])


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def _dataclass_in(hint: Any) -> type | None:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((option for option in options if isinstance(option, type) and dataclasses.is_dataclass(option)), None)


def _hint(full: str) -> str:
    """Suggest a name with the same last part (`epochs`: `training.epochs`), else a similar one, in its group first."""
    group, _, last = full.rpartition(".")
    parts = {*full.split(".")}
    every = sorted(_all_names(), key=lambda name: (-len(parts & {*name.split(".")}), name.count(".")))  # nearest first
    beside = [name for name in every if name.rpartition(".")[0] == group]
    for names, cutoff in ((every, 1.0), (beside, 0.6), (every, 0.8)):
        by_last = {name.rpartition(".")[2]: name for name in reversed(names)}
        near = get_close_matches(last, by_last, n=1, cutoff=cutoff)
        if near:
            return f" Did you mean {by_last[near[0]]!r}?"
    return ""


@functools.cache
def _all_names() -> list[str]:
    """Return the names of all settings and groups."""
    names = [setting.name.split(".") for setting in describe()]
    return list(dict.fromkeys(".".join(parts[: end + 1]) for parts in names for end in range(len(parts))))


def _parse(hint: Any, value: Any, name: str, base: Any) -> Any:
    inner = _dataclass_in(hint)
    if inner is not None:
        optional = isinstance(hint, types.UnionType)
        if optional and value == NONE:
            return None
        if not isinstance(value, Mapping):
            absent = f" or {NONE!r}" if optional else ""
            raise ConfigError(f"{name} is a group of settings{absent}, got {shortened(value)}.")
        return from_dict(inner, value, name, base)
    if isinstance(value, Mapping) and value:
        raise ConfigError(f"{name} is one setting, not a group: it has no {shortened(next(iter(value)))}.")
    if typing.get_origin(hint) is tuple:
        values = value if isinstance(value, list | tuple) else [value]
        if all(isinstance(item, str) for item in values):
            return tuple(_unicode(item, name) for item in values)
    elif hint is str and isinstance(value, str):
        return _unicode(value, name)
    elif isinstance(value, int) and abs(value) >= _TOO_LARGE:
        raise ConfigError(f"{name} is {shortened(value)}; no setting can be as large.")
    elif hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    elif isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    raise ConfigError(f"{name} must be {_type_name(hint)}, got {shortened(value)}.")


def _unicode(text: str, name: str) -> str:
    """Refuse command line bytes that are not UTF-8, which config.toml could not store."""
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{name} is not valid UTF-8: {shortened(text)}.")
    return text


def _type_name(hint: Any) -> str:
    names = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}
    return names.get(hint, "a list of texts")


@functools.cache
def _lists() -> set[str]:
    return {setting.name for setting in describe() if setting.type == _type_name(tuple)}


def _literal(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _toml_lines(table: Mapping[str, Any], path: str) -> Iterator[str]:
    for name, value in table.items():
        if not isinstance(value, dict):
            yield f"{name} = {toml_value(value)}"
    for name, value in table.items():
        if isinstance(value, dict):
            full = f"{path}.{name}" if path else name
            yield ""
            yield f"[{full}]"
            yield from _toml_lines(value, full)


def _flat(table: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        full = f"{path}.{name}" if path else name
        if isinstance(value, dict):
            yield from _flat(value, full)
        else:
            yield full, value


def _shown(value: Any) -> str:
    return "(absent)" if value is None else str(value)


@functools.cache
def _field_helps(kind: type) -> dict[str, str]:
    """Find the string literal that follows each field in the class's source."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    helps: dict[str, str] = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            helps[field.target.id] = str(after.value.value)
    return helps
