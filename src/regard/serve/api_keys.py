"""API keys: a file with one key a line, read again on SIGHUP."""

import hashlib
import hmac
import logging
from dataclasses import dataclass
from pathlib import Path

from regard.errors import ConfigError

logger = logging.getLogger("regard")

SHORTEST = 16
"""Characters of a key that cannot be guessed: `secrets.token_urlsafe(32)` has 43."""


@dataclass(frozen=True)
class ApiKey:
    """A key that is allowed in. The key itself is not kept, so that nothing can print it."""

    digest: bytes
    rate: int | None
    """Requests a minute, if other than the server's limit; 0 for any number."""


class ApiKeys:
    """The keys of a file: a line has a key, and after white space its requests a minute if they are limited apart."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._keys = _read(path)

    def find(self, given: str) -> ApiKey | None:
        """Return the entry of a key, in a time that does not depend on how much of it is right."""
        digest, found = _digest(given), None
        for key in self._keys:  # always all of them
            if hmac.compare_digest(key.digest, digest):
                found = key
        return found

    def reload(self) -> bool:
        """Read the file again; if that fails, keep the present keys, log why, and return False."""
        try:
            self._keys = _read(self._path)
        except ConfigError as error:
            logger.error(f"The API keys are not reloaded, the old ones stay: {error}")
            return False
        return True


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode(errors="surrogatepass")).digest()


def _read(path: Path) -> tuple[ApiKey, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(
            f"The file of API keys {path} cannot be read: {(error.strerror or str(error)).lower()}."
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(f"The file of API keys {path} is not UTF-8.") from None
    keys = {}
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if not parts or parts[0].startswith("#"):
            continue
        key = _parse(f"{path}, line {number}", parts)
        if key.digest in keys:
            raise ConfigError(f"{path}, line {number}: this key is there twice.")
        keys[key.digest] = key
    if not keys:
        raise ConfigError(f"The file of API keys {path} has none: write one key a line.")
    return tuple(keys.values())


def _parse(where: str, parts: list[str]) -> ApiKey:
    """Read a line; messages never repeat the key."""
    if len(parts) > 2 or (len(parts) == 2 and not (parts[1].isascii() and parts[1].isdigit())):
        raise ConfigError(f"{where}: after the key there may be its requests a minute, a whole number, and no more.")
    if len(parts[0]) < SHORTEST:
        raise ConfigError(f"{where}: the key has {len(parts[0])} characters; at least {SHORTEST} are needed.")
    return ApiKey(_digest(parts[0]), int(parts[1]) if len(parts) == 2 else None)
