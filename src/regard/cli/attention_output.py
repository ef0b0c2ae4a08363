"""The output of `regard attend`: print an attention trace, over text or an image, and save it to files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from regard.cli.options import check_target

if TYPE_CHECKING:
    from regard.viz.image_trace import ImageTrace
    from regard.viz.trace import AttentionTrace, Choice


class DisplayOptions(NamedTuple):
    """How to display a trace: width, colour, and which layer and heads."""

    columns: int
    color: bool
    layer: int | None
    head: int | None
    heads: bool
    """Show each head separately, of `layer` or of all layers."""


@dataclass(frozen=True)
class AttendRequest:
    """The arguments of `regard attend`."""

    what: str
    """A sentence, or the path of an image."""
    out: Sequence[Path]
    look: DisplayOptions
    device: str = "auto"
    target: str | None = None
    posterior: bool = False
    prefix: str = ""
    question: str | None = None
    features: Path | None = None
    ensemble: Sequence[Path] = ()
    to: str | None = None
    beam: int | None = None
    changes: Sequence[str] = ()
    """Overrides of decoding settings, as NAME=VALUE."""


def check_files(out: Sequence[Path], forms: Sequence[str]) -> None:
    """Raise an error for output files that cannot be written, before any work is done."""
    from regard.viz.picture_files import check_suffix

    for path in out:
        check_suffix(path, forms)
        check_target(path)


def show_trace(text: str, trace: "AttentionTrace | ImageTrace", out: Sequence[Path], look: DisplayOptions) -> None:
    """Save the trace to files, in the format of each suffix; then print the text and its attention.

    Files are written first, because a reader of our output such as `head` may close the pipe early.
    """
    trace.look(look.layer, look.head)  # fail on a missing layer or head before anything is written
    every: tuple[Choice, Choice] = ("all" if look.layer is None else look.layer, "all")
    shown = every if look.heads else (look.layer, look.head)
    notes = {path: trace.save(path, layer=shown[0], head=shown[1], quiet=True) for path in out}
    print(text)
    for layer, head in trace.every_head(look.layer) if look.heads else [(look.layer, look.head)]:
        print(trace.render(look.columns, look.color, layer=layer, head=head), flush=True)
    for path in out:
        tell_written(path, notes[path])


def tell_written(path: Path, notes: Sequence[str]) -> None:
    """Report on stderr that a file was written, with any notes about it."""
    for note in notes:
        typer.echo(f"regard: {note}", err=True)
    typer.echo(f"Wrote {path}", err=True)
