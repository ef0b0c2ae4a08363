"""The configuration file of `regard serve`."""

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from regard.config_io import describe, from_dict
from regard.errors import ConfigError, did_you_mean
from regard.serve.json_log import KINDS
from regard.serve.request_limits import Limits

_HIGHEST_PORT = 65_535


@dataclass(frozen=True)
class ServeConfig:
    """The settings of a server. Paths in a file are relative to the file's folder."""

    models: tuple[str, ...] = ()
    """Model folders, of any task."""
    host: str = "127.0.0.1"
    """Address to listen on; 0.0.0.0 is every address of this machine."""
    port: int = 8000
    """Port to listen on; 0 picks a free one."""
    device: str = "auto"
    """Device of the models: auto, cpu, cuda or cuda:N."""
    workers: int = 1
    """Processes that serve the models, each with models of its own."""
    batch: int = 64
    """Maximum number of texts or pictures in a batch."""
    wait: int = 5
    """Milliseconds to wait for further requests to fill a batch."""
    api_keys: str = ""
    """File with one API key a line; without it, anyone may use the models."""
    origins: tuple[str, ...] = ()
    """Origins of web pages that may use the API, such as https://example.org; none by default."""
    proxies: tuple[str, ...] = ()
    """Addresses of reverse proxies whose X-Forwarded-For is believed; none by default."""
    log: str = "text"
    """Log to stderr: text (warnings and errors) or json (every request too)."""
    limits: Limits = field(default_factory=Limits)
    """What is allowed to requests."""


def read_config(path: Path) -> ServeConfig:
    """Read a configuration file; settings that it lacks keep their defaults."""
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not valid TOML: {error}.") from None
    try:
        _check_names(values)
        config = from_dict(ServeConfig, values)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None
    folder = path.parent
    models = tuple(str(folder / model) for model in config.models)
    return replace(config, models=models, api_keys=config.api_keys and str(folder / config.api_keys))


def _check_names(values: Mapping[str, Any]) -> None:
    """Raise a ConfigError for the first unknown name."""
    known = [setting.name for setting in describe(ServeConfig)]
    for name, value in values.items():
        for full in [f"{name}.{inner}" for inner in value] if isinstance(value, Mapping) and value else [name]:
            if full not in (*known, "limits"):
                last = {one.rpartition(".")[2]: one for one in reversed(known)}
                near = did_you_mean(full, known) or did_you_mean(full.rpartition(".")[2], last)
                raise ConfigError(f"Unknown setting {full!r}.{near} There are: {', '.join(known)}.")


def check_config(config: ServeConfig) -> None:
    """Raise a ConfigError for settings out of range."""
    none = {"port", "wait", "limits.rate"}  # which may be 0
    groups = {"limits": config.limits}
    for setting in describe(ServeConfig):
        group, _, last = setting.name.rpartition(".")
        value = getattr(groups.get(group, config), last)
        if isinstance(value, int) and value < (least := 0 if setting.name in none else 1):
            raise ConfigError(f"{setting.name} is {value}; it must be at least {least}.")
        if isinstance(value, float) and not 0 < value < math.inf:
            raise ConfigError(f"{setting.name} is {value}; it must be a finite number above 0.")
    if config.port > _HIGHEST_PORT:
        raise ConfigError(f"port is {config.port}; it must be at most {_HIGHEST_PORT}.")
    if config.log not in KINDS:
        raise ConfigError(f"log is {config.log!r}; it must be {' or '.join(KINDS)}.{did_you_mean(config.log, KINDS)}")
    for origin in config.origins:
        _check_origin(origin)
    if not config.models:
        raise ConfigError("There is no model to serve: name model folders on the command line or in the configuration.")


def _check_origin(origin: str) -> None:
    parts = urlsplit(origin)
    if "*" in origin:
        raise ConfigError(f"origins has {origin!r}: any page could use the API. Name each origin.")
    if parts.scheme not in ("http", "https") or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != origin:
        raise ConfigError(f"origins has {origin!r}: an origin is like https://example.org, without a path.")
