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
    typer.Option("--with", metavar="MODEL", help="Decode with this model as well, as an ensemble. Repeatable."),
]
To = Annotated[
    str | None, typer.Option(metavar="TAG", help="Tag of the language to write, for a model trained with --tagged.")
]
Beam = Annotated[
    int | None, typer.Option(metavar="N", help="Beam size; 1 is greedy search.  [default: the model's setting]")
]
Search = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Override a decoding setting of the model, e.g. decoding.method=sample. Repeatable.",
        autocompletion=decoding_assignments,
    ),
]
Fast = Annotated[
    bool,
    typer.Option("--fast", help="Faster on a CPU: int8 matrix products and a vocabulary shortlist."),
]
Batch = Annotated[int | None, typer.Option(metavar="N", help="Batch size.  [default: 64, larger on a GPU]")]
Device = Annotated[str, typer.Option(metavar="NAME", help="auto, cpu or cuda.", autocompletion=devices)]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="CORPUS", help="A .tsv, .jsonl or .txt file (also .gz, .xz), - for stdin, or an embedded corpus."
    ),
]
SeveralData = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="CORPUS[*WEIGHT]",
        help="A .tsv, .jsonl or .txt file (also .gz, .xz), FILE,FILE for parallel files, - for stdin, or an embedded "
        "corpus. Repeatable: several corpora are mixed; *2 or *0.5 repeats or samples one per epoch.",
    ),
]
Source = Annotated[str | None, typer.Option(metavar="FILE", help="Source texts, one per line.")]
Target = Annotated[str | None, typer.Option(metavar="FILE", help="Target texts, line by line parallel to --source.")]
Alignment = Annotated[
    str | None,
    typer.Option(
        "--alignment",
        "--alignments",
        metavar="FILE",
        help="Word alignments of --source and --target, for training.guided (talp:FILE if counted from 1).",
    ),
]
Color = Annotated[
    bool | None,
    typer.Option("--color/--no-color", help="Draw in colour.  [default: on a terminal]", show_default=False),
]
Layer = Annotated[
    int | None, typer.Option(metavar="N", help="Align by this layer, from 0 (-1: the last).  [default: the mean]")
]
Head = Annotated[
    int | None, typer.Option(metavar="N", help="Align by this head, from 0 (-1: the last).  [default: the mean]")
]
Shift = Annotated[
    bool,
    typer.Option(
        "--shift", help="Align a target word by the attention of the next step, when it is the decoder's input."
    ),
]
Posterior = Annotated[
    bool,
    typer.Option(
        "--posterior",
        help="Align by the posterior: attention times the word's probability given that source position alone. Slow.",
    ),
]
ReverseModel = Annotated[
    Path | None, typer.Option(metavar="MODEL", help="Symmetrise with the alignments of this target-to-source model.")
]
Symmetrise = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Symmetrisation (see: regard list symmetrisations).  [default: grow-diag-final-and]"
    ),
]
Tagged = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TAG=CORPUS",
        help="Instead of --data: a corpus and a tag for its targets, such as de=train.en,train.de or "
        "fr=pairs.tsv*2. Repeatable.",
    ),
]
ValidTagged = Annotated[
    list[str] | None, typer.Option(metavar="TAG=CORPUS", help="Validation corpora for --tagged. Repeatable.")
]


def check_at_least(least: int, **given: int | None) -> None:
    """Raise a ConfigError for a number that is too small; `n_best=0` is reported as `--n-best is 0`."""
    for name, number in given.items():
        if number is not None and number < least:
            raise ConfigError(f"--{name.replace('_', '-')} is {number}; it must be at least {least}.")


def check_target(path: Path) -> None:
    """Raise a DisplayError for an output file that cannot be written, before any work is done."""
    if path.is_dir():
        raise DisplayError(f"Cannot write {path}: it is a folder.")
    if not path.parent.is_dir():
        raise DisplayError(f"Cannot write {path}: there is no folder {path.parent}.")
    if not os.access(path.parent, os.W_OK):
        raise DisplayError(f"Cannot write {path}: no permission to write in {path.parent}.")


def wants_color(asked: bool | None) -> bool:
    """Return whether to use colour: as given, else on a terminal unless NO_COLOR is set (no-color.org)."""
    if asked is not None:
        return asked
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
