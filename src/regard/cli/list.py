"""`regard list`."""

import inspect
from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from regard.errors import ConfigError, did_you_mean


def list_parts(
    what: Annotated[
        str | None, typer.Argument(metavar="[WHAT]", help="One kind only, such as presets or scores.")
    ] = None,
) -> None:
    """List all there is to choose from: presets, attention parts, corpora, settings and the rest."""
    kinds = _kinds()
    if what is not None and what not in kinds:
        raise ConfigError(f"There are no {what!r} to list.{did_you_mean(what, kinds)} There are: {', '.join(kinds)}.")
    for kind in [what] if what else kinds:
        print(kind if what is None else "", end="\n" if what is None else "")
        rows = list(kinds[kind])
        widest = max(len(name) for name, _ in rows)
        for name, about in rows:
            print(f"{'' if what else '  '}{name:<{widest}}  {about}")


def _kinds() -> Mapping[str, Iterator[tuple[str, str]]]:
    from regard.attention import focuses, reaches, scores
    from regard.data.embedded import corpora
    from regard.data.tokenizers import kinds as tokenizers
    from regard.layers.cells import cells
    from regard.layers.readout import readouts
    from regard.models import bahdanau, luong  # noqa: F401 (importing them registers them)
    from regard.models.recurrent import decoders
    from regard.presets import presets
    from regard.training.averaging import averages
    from regard.training.optimizer import optimizers
    from regard.training.schedule import schedules

    registries = (
        presets,
        scores,
        reaches,
        focuses,
        decoders,
        cells,
        readouts,
        tokenizers,
        corpora,
        optimizers,
        schedules,
        averages,
    )
    return {registry.plural: _members(registry) for registry in registries} | {"settings": _settings()}


def _members(registry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, part in registry.items():
        yield name, (inspect.getdoc(part) or "").partition("\n")[0]


def _settings() -> Iterator[tuple[str, str]]:
    from regard.settings import describe

    for setting in describe():
        default = setting.default if setting.default not in ("", ()) else "–"
        yield setting.name, f"{setting.help} [{default}]"
