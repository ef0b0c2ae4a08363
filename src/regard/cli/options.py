"""Options that several commands share."""

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import decoding_assignments, devices
from regard.errors import ConfigError, DataError, DisplayError

if TYPE_CHECKING:
    from regard.evaluation.alignment_error_rate import Reading

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


def corpus_parts(
    data: str | None, source: str | None, target: str | None, prefix: str = "", alignment: str | None = None
) -> tuple[str, ...]:
    """Return what was given as a corpus: one name, or two files and maybe alignments; nothing where nothing was."""
    dashes = f"--{prefix}-" if prefix else "--"
    one, two = f"--{prefix or 'data'}", f"{dashes}source and {dashes}target"
    if data is not None and (source is not None or target is not None):
        raise DataError(f"Give either {one} or {two}, not both.")
    if (source is None) != (target is None):
        raise DataError(f"{two} go together: one of them is missing.")
    if alignment is not None and source is None:
        raise DataError(f"{dashes}alignment goes with {two}; with {one} it is the third column.")
    if data is not None:
        return (data,)
    return tuple(part for part in (source, target, alignment) if part is not None)


def training_parts(
    data: list[str] | None, source: str | None, target: str | None, alignment: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return what was given to train on: one corpus, or several to be mixed as data.mixed has them.

    A file that is there is taken by its whole name where it is given alone, and in a mixture where its name has a *.
    """
    given = data or []
    if len(given) < 2 and not any("*" in one and not os.path.lexists(one) for one in given):
        parts = corpus_parts(given[0] if given else None, source, target, alignment=alignment)
        if given and "," in given[0] and not os.path.lexists(given[0]):
            parts = tuple(part.strip() for part in given[0].split(","))
        return parts, ()
    corpus_parts(given[0], source, target, alignment=alignment)  # what does not go together is refused
    return (), tuple(f"{one}*1" if "*" in one and os.path.lexists(one) else one for one in given)


def check_at_least(least: int, **given: int | None) -> None:
    """Raise a ConfigError for a number that is too small; `n_best=0` is told as `--n-best is 0`."""
    for name, number in given.items():
        if number is not None and number < least:
            raise ConfigError(f"--{name.replace('_', '-')} is {number}; it must be at least {least}.")


def leave_out(given: Mapping[str, object], taken: Iterable[str], model: Path, what: str) -> None:
    """Refuse options that mean nothing for a model's task."""
    wrong = [name for name, value in given.items() if value and name not in taken]
    if wrong:
        *most, last = wrong
        raise ConfigError(f"Leave out {', '.join(most)}{' and ' if most else ''}{last}: {model} holds {what}.")


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


def alignment_reading(
    layer: int | None,
    head: int | None,
    shift: bool,
    posterior: bool,
    reverse_model: Path | None,
    symmetrise: str | None,
) -> "Reading | None":
    """Return how alignments are to be read off; None where nothing was said of it."""
    if symmetrise is not None and reverse_model is None:
        raise ConfigError("--symmetrise merges the alignments of two models: give --reverse-model, too.")
    if layer is None and head is None and not shift and not posterior and reverse_model is None:
        return None
    from regard.evaluation.alignment_error_rate import MERGE, Reading
    from regard.evaluation.symmetrisation import symmetrisations

    _ = symmetrisations[symmetrise or MERGE]  # what is not there is refused before the work is done
    return Reading(layer, head, shift, symmetrise or MERGE, posterior)
