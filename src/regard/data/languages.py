"""The languages of a model: codes as in BCP 47, checked and compared, and the pairs that a model translates."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from regard.config import DataConfig
from regard.errors import ConfigError

_CODE: Final = re.compile(r"([a-z]{2,3})(?:-([a-z]{4}))?(?:-([a-z]{2}|[0-9]{3}))?", re.IGNORECASE)
"""Language, script and region: what tells languages of translation apart."""


class LanguagePair(NamedTuple):
    """A language to read, one to write, and the tag that makes the model write it."""

    source: str
    target: str
    tag: str | None = None


def canonical(code: str) -> str | None:
    """Return a code as BCP 47 recommends to write it (`pt-BR`, `zh-Hant`); None for what is no code."""
    match = _CODE.fullmatch(code)
    if match is None:
        return None
    language, script, region = match.groups()
    return "-".join(part for part in (language.lower(), script and script.title(), region and region.upper()) if part)


def check_code(code: str, setting: str) -> str:
    """Return a code as it should be written; raise a ConfigError for what is no code."""
    found = canonical(code.strip())
    if found is None:
        close = canonical(code.strip().replace("_", "-"))
        hint = f" Did you mean {close!r}?" if close else ""
        raise ConfigError(f"{setting}: {code!r} is not a language code such as en, pt-BR or zh-Hant.{hint}")
    return found


def check_languages(data: DataConfig) -> None:
    """Raise a ConfigError for codes that are none, and for languages that contradict the tags."""
    for code in data.from_language:
        check_code(code, "data.from_language")
    if data.to_language:
        check_code(data.to_language, "data.to_language")
        if data.tagged:
            raise ConfigError(
                f"data.to_language is {data.to_language}, but the tags of data.tagged say what is written: leave out "
                "--to-language, and take language codes as tags."
            )


def language_pairs(data: DataConfig, tags: Sequence[str]) -> list[LanguagePair]:
    """Return the pairs that a model translates, as its settings say; empty if they name no languages.

    Of a model with tags, each tag that is a language code is a language that it writes.
    """
    check_languages(data)
    sources = [check_code(code, "data.from_language") for code in data.from_language]
    targets: list[tuple[str, str | None]]
    if tags:
        targets = [(code, tag) for tag in tags if (code := canonical(tag)) is not None]
    else:
        targets = [(check_code(data.to_language, "data.to_language"), None)] if data.to_language else []
    return [LanguagePair(source, target, tag) for source in sources for target, tag in targets if source != target]
