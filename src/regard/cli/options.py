"""Options that several commands share."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import decoding_assignments, devices
from regard.errors import ConfigError, DisplayError

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The model folder.", show_default=False)]
With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="MODEL", help="Let this model write along (an ensemble). Repeatable."),
]
To = Annotated[
    str | None, typer.Option(metavar="TAG", help="What to write, for a model that was trained with several tags.")
]
Beam = Annotated[
    int | None, typer.Option(metavar="N", help="Hypotheses kept at each step; 1 is greedy.  [default: the model's own]")
]
Search = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Search otherwise than the model's config.toml says, e.g. decoding.method=sample. Repeatable.",
        autocompletion=decoding_assignments,
    ),
]
Fast = Annotated[
    bool,
    typer.Option("--fast", help="On a CPU: products in int8, and only words that training saw go with the source's."),
]
Batch = Annotated[
    int | None, typer.Option(metavar="N", help="Sentences searched at once: 64, and more on a GPU, unless given.")
]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.", autocompletion=devices)]
Data = Annotated[
    str | None,
    typer.Option(metavar="CORPUS", help="A .tsv, .jsonl or .txt file (also .gz, .xz), - for stdin, an embedded name."),
]
SeveralData = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="CORPUS[*WEIGHT]",
        help="A .tsv, .jsonl or .txt file (also .gz, .xz), FILE,FILE for parallel ones, - for stdin, an embedded name. "
        "Repeatable: several are mixed, and *2 or *0.5 says how often an epoch has one.",
    ),
]
Source = Annotated[str | None, typer.Option(metavar="FILE", help="The source side, one text a line.")]
Target = Annotated[str | None, typer.Option(metavar="FILE", help="The target side, line by line beside the source.")]
Alignment = Annotated[
    str | None,
    typer.Option(
        "--alignment",
        "--alignments",
        metavar="FILE",
        help="Alignments beside --source and --target, for training.guided (talp:FILE if counted from 1).",
    ),
]
Color = Annotated[
    bool | None,
    typer.Option("--color/--no-color", help="Draw in colour.  [default: on a terminal]", show_default=False),
]
Layer = Annotated[
    int | None, typer.Option(metavar="N", help="Alignments of this layer, from 0 (-1: the last).  [default: the mean]")
]
Head = Annotated[
    int | None, typer.Option(metavar="N", help="Alignments of this head, from 0 (-1: the last).  [default: the mean]")
]
Shift = Annotated[
    bool, typer.Option("--shift", help="Align a word by where the model looks when it reads it, one step later.")
]
Posterior = Annotated[
    bool,
    typer.Option(
        "--posterior", help="Align by Bayes' rule: each look, times how well that place alone tells the word. Slow."
    ),
]
ReverseModel = Annotated[
    Path | None, typer.Option(metavar="MODEL", help="Merge the alignments with those of a model target → source.")
]
Symmetrise = Annotated[
    str | None, typer.Option(metavar="NAME", help="How: regard list symmetrisations.  [default: grow-diag-final-and]")
]
Tagged = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TAG=CORPUS",
        help="Instead of --data: de=train.en,train.de or fr=pairs.tsv*2; the tag tells what to write. Repeatable.",
    ),
]
ValidTagged = Annotated[
    list[str] | None, typer.Option(metavar="TAG=CORPUS", help="Validation corpora of these. Repeatable.")
]


def check_at_least(least: int, **given: int | None) -> None:
    """Raise a ConfigError for a number that is too small; `n_best=0` is told as `--n-best is 0`."""
    for name, number in given.items():
        if number is not None and number < least:
            raise ConfigError(f"--{name.replace('_', '-')} is {number}; it must be at least {least}.")


def check_target(path: Path) -> None:
    """Raise a DisplayError for a file that cannot be written, before the work is done that it is to hold."""
    if path.is_dir():
        raise DisplayError(f"Cannot write {path}: it is a folder.")
    if not path.parent.is_dir():
        raise DisplayError(f"Cannot write {path}: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise DisplayError(f"Cannot write {path}: nothing may be written in {path.parent}.")


def wants_color(asked: bool | None) -> bool:
    """Say whether to write colour: as asked, otherwise on a terminal unless NO_COLOR is set (no-color.org)."""
    if asked is not None:
        return asked
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
