"""Options that several commands share."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.errors import DataError

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder.", show_default=False)]
Beam = Annotated[int | None, typer.Option(help="Hypotheses kept at each step; 1 is greedy. [the model's own]")]
Device = Annotated[str, typer.Option(help="auto, cpu, or cuda.")]
Data = Annotated[
    str | None,
    typer.Option(metavar="CORPUS", help="A .tsv or .jsonl file (also .gz, .xz), - for stdin, or an embedded name."),
]
Source = Annotated[str | None, typer.Option(metavar="FILE", help="The source side, one text a line.")]
Target = Annotated[str | None, typer.Option(metavar="FILE", help="The target side, line by line beside the source.")]


def corpus_parts(data: str | None, source: str | None, target: str | None, prefix: str = "") -> tuple[str, ...]:
    """Return what was given as a corpus: one name or two files; nothing where nothing was."""
    one, two = (
        f"--{prefix or 'data'}",
        f"--{prefix}{'-' if prefix else ''}source and --{prefix}{'-' if prefix else ''}target",
    )
    if data is not None and (source is not None or target is not None):
        raise DataError(f"Give either {one} or {two}, not both.")
    if (source is None) != (target is None):
        raise DataError(f"{two} go together: one of them is missing.")
    if data is not None:
        return (data,)
    return () if source is None or target is None else (source, target)


def wants_color(asked: bool | None) -> bool:
    """Say whether to write colour: as asked, otherwise on a terminal unless NO_COLOR is set (no-color.org)."""
    if asked is not None:
        return asked
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
