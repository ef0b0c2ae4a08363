"""`regard list`."""

import importlib
import inspect
import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import Annotated

import typer

from regard.cli.completion import kinds
from regard.config_io import describe, toml_value
from regard.errors import ConfigError, did_you_mean

KINDS = {
    "presets": "regard.presets:presets",
    "scores": "regard.attention:scores",
    "reaches": "regard.attention:reaches",
    "focuses": "regard.attention:focuses",
    "coverages": "regard.attention:coverages",
    "positions": "regard.attention.positions:positions",
    "encoders": "regard.models.build:encoders",
    "decoders": "regard.models.build:decoders",
    "cells": "regard.layers.rnn_cells:cells",
    "readouts": "regard.layers.readout:readouts",
    "stems": "regard.vision.encoder:stems",
    "blocks": "regard.vision.blocks:blocks",
    "grids": "regard.vision.grid_positions:grids",
    "visions": "regard.presets.vision:visions",
    "answerers": "regard.vision.questions.build:answerers",
    "queries": "regard.vision.detection.queries:queries",
    "tokenizers": "regard.data.tokenizers:kinds",
    "corpora": "regard.data.builtin_corpora:corpora",
    "symmetrisations": "regard.evaluation.symmetrisation:symmetrisations",
    "optimizers": "regard.training.optimizer:optimizers",
    "schedules": "regard.training.learning_rate_schedule:schedules",
    "forcings": "regard.training.scheduled_sampling:forcings",
    "averages": "regard.training.weight_averaging:averages",
    "methods": "regard.decoding.search:methods",
    "utilities": "regard.decoding.search:utilities",
}
"""The location of each registry; imported only when listed."""
BESIDE = {"corpora": "regard.data.builtin_corpora:pictured"}
"""A second registry to list under the same kind."""
SETTINGS = "settings"

Row = tuple[str, str]


def list_parts(
    what: Annotated[
        str | None,
        typer.Argument(metavar="WHAT", help=f"One kind only: {', '.join(KINDS)} or {SETTINGS}.", autocompletion=kinds),
    ] = None,
) -> None:
    """List presets, model parts, corpora and settings.

    Change a setting with regard train --set NAME=VALUE. The defaults shown apply when no preset is used.
    """
    every = (*KINDS, SETTINGS)
    if what is not None and what not in every:
        raise ConfigError(f"There are no {what!r} to list.{did_you_mean(what, every)} There are: {', '.join(every)}.")
    if what is not None:
        _print(list(_rows(what)), indent="")
        return
    for number, kind in enumerate(every):
        print(f"{chr(10) if number else ''}{kind}")
        _print(list(_rows(kind)), indent="  ")


def _rows(kind: str) -> Iterator[Row]:
    if kind == SETTINGS:
        for setting in describe():
            default = "" if setting.default in ("", ()) else f" [{toml_value(setting.default)}]"
            yield setting.name, f"{setting.help}{default}"
        return
    for place in (KINDS[kind], *([BESIDE[kind]] if kind in BESIDE else [])):
        module, _, name = place.partition(":")
        for part, made in getattr(importlib.import_module(module), name).items():
            yield part, (inspect.getdoc(made) or "").partition("\n\n")[0].replace("\n", " ")


def _print(rows: list[Row], indent: str) -> None:
    """Print two columns; wrap the second on a terminal, otherwise print one line per row (for grep)."""
    start = len(indent) + max(len(name) for name, _ in rows) + 2
    width = shutil.get_terminal_size((80, 24)).columns - start if sys.stdout.isatty() else sys.maxsize
    for name, about in rows:
        lines = textwrap.wrap(about, max(width, 30)) or [""]
        print(f"{indent}{name}".ljust(start) + f"\n{' ' * start}".join(lines))
