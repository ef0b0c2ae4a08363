"""What `regard attend` does with a trace, whatever it is over: print it, and write it to files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from regard.cli.options import check_target

if TYPE_CHECKING:
    from regard.viz.image_trace import ImageTrace
    from regard.viz.trace import AttentionTrace, Choice


class Look(NamedTuple):
    """What is to be seen of a trace, and in what."""

    columns: int
    color: bool
    layer: int | None
    head: int | None
    heads: bool
    """Every head by itself, of the layer or of all."""


@dataclass(frozen=True)
class AttendRequest:
    """What `regard attend` was asked for."""

    what: str
    """A text, or the path of an image."""
    out: Sequence[Path]
    look: Look
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
    """Changed settings of the search, as NAME=VALUE."""


def check_files(out: Sequence[Path], forms: Sequence[str]) -> None:
    """Refuse files that could not be written, before the work is done."""
    from regard.viz.picture_files import check_suffix

    for path in out:
        check_suffix(path, forms)
        check_target(path)


def show_trace(text: str, trace: "AttentionTrace | ImageTrace", out: Sequence[Path], look: Look) -> None:
    """Write files, each in the form that its suffix names; print what was written and where the model looked.

    Files come first: whoever reads what is printed may have seen enough after a line.
    """
    trace.look(look.layer, look.head)  # what is not there is refused before anything is made
    every: tuple[Choice, Choice] = ("all" if look.layer is None else look.layer, "all")
    shown = every if look.heads else (look.layer, look.head)
    notes = {path: trace.save(path, layer=shown[0], head=shown[1], quiet=True) for path in out}
    print(text)
    for layer, head in trace.every_head(look.layer) if look.heads else [(look.layer, look.head)]:
        print(trace.render(look.columns, look.color, layer=layer, head=head), flush=True)
    for path in out:
        tell_written(path, notes[path])


def tell_written(path: Path, notes: Sequence[str]) -> None:
    """Say that a file was written, and what to know about it."""
    for note in notes:
        typer.echo(f"regard: {note}", err=True)
    typer.echo(f"Wrote {path}", err=True)
