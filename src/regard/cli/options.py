"""Options that several commands share."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.completion import decoding_assignments, devices
from regard.config import Config, DecodingConfig
from regard.config_io import override
from regard.errors import ConfigError, DataError, DisplayError

if TYPE_CHECKING:
    from regard.evaluation.alignment_error_rate import Reading

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


def corpus_parts(
    data: str | None, source: str | None, target: str | None, prefix: str = "", alignment: str | None = None
) -> tuple[str, ...]:
    """Return the parts of a corpus from its options: one name, or two files and maybe alignments; or empty."""
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
    """Return the training corpus as `(parts, mixed)`: the parts of one corpus, or several for `data.mixed`.

    An existing file whose name has a comma or `*` is taken literally where it is given alone; in a mixture, so is one
    with a `*`.
    """
    given = data or []
    if len(given) < 2 and not any("*" in one and not os.path.lexists(one) for one in given):
        parts = corpus_parts(given[0] if given else None, source, target, alignment=alignment)
        if given and "," in given[0] and not os.path.lexists(given[0]):
            parts = tuple(part.strip() for part in given[0].split(","))
        return parts, ()
    corpus_parts(given[0], source, target, alignment=alignment)  # raises for options that exclude each other
    return (), tuple(f"{one}*1" if "*" in one and os.path.lexists(one) else one for one in given)


def search_options(own: DecodingConfig, changes: Sequence[str] | None) -> DecodingConfig:
    """Return a model's decoding settings with overrides of the form `decoding.NAME=VALUE` applied."""
    for change in changes or []:
        if not change.startswith("decoding."):
            raise ConfigError(f"{change!r} cannot be changed in a trained model: only decoding settings can.")
    return override(Config(decoding=own), [*(changes or [])]).decoding


def check_at_least(least: int, **given: int | None) -> None:
    """Raise a ConfigError for a number that is too small; `n_best=0` is reported as `--n-best is 0`."""
    for name, number in given.items():
        if number is not None and number < least:
            raise ConfigError(f"--{name.replace('_', '-')} is {number}; it must be at least {least}.")


def leave_out(given: Mapping[str, object], taken: Iterable[str], model: Path, what: str) -> None:
    """Raise a ConfigError for options that do not apply to a model's task."""
    wrong = [name for name, value in given.items() if value and name not in taken]
    if wrong:
        *most, last = wrong
        raise ConfigError(f"Leave out {', '.join(most)}{' and ' if most else ''}{last}: {model} holds {what}.")


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


def alignment_reading(
    layer: int | None,
    head: int | None,
    shift: bool,
    posterior: bool,
    reverse_model: Path | None,
    symmetrise: str | None,
) -> "Reading | None":
    """Return how to read alignments off the attention; None if no option says."""
    if symmetrise is not None and reverse_model is None:
        raise ConfigError("--symmetrise merges the alignments of two models: give --reverse-model as well.")
    if layer is None and head is None and not shift and not posterior and reverse_model is None:
        return None
    from regard.evaluation.alignment_error_rate import MERGE, Reading
    from regard.evaluation.symmetrisation import symmetrisations

    _ = symmetrisations[symmetrise or MERGE]  # fail early on an unknown name
    return Reading(layer, head, shift, symmetrise or MERGE, posterior)
