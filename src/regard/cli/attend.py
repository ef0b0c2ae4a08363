"""`regard attend`."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import (
    Beam,
    Color,
    Device,
    Model,
    Search,
    To,
    With,
    check_at_least,
    check_target,
    search_options,
    wants_color,
)
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.viz.overlay import ImageTrace
    from regard.viz.trace import AttentionTrace, Choice


def attend(
    model: Model,
    sentence: Annotated[
        str, typer.Argument(metavar="SENTENCE", help="What to translate, in quotes.", show_default=False)
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also write it as .png, .svg, .pdf or .json. Repeatable."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show the attention for this translation instead of the model's.")
    ] = None,
    layer: Annotated[
        int | None, typer.Option(metavar="N", help="Show this layer, from 0 (-1: the last).  [default: the mean]")
    ] = None,
    head: Annotated[
        int | None, typer.Option(metavar="N", help="Show this head, from 0 (-1: the last).  [default: the mean]")
    ] = None,
    heads: Annotated[
        bool, typer.Option("--heads", help="Show every head by itself, of the given layer or of all.")
    ] = False,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What the translation must start with.")] = "",
    with_: With = None,
    to: To = None,
    beam: Beam = None,
    set_: Search = None,
    color: Color = None,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Columns to draw in.  [default: the terminal's]")
    ] = None,
    device: Device = "auto",
) -> None:
    """Show where a model looks while it translates a sentence.

    A row for each token written, a column for each token read; the stronger, the more it was looked at.
    """
    _check_text("sentence", sentence)
    check_at_least(20, width=width)
    check_at_least(1, beam=beam)
    if heads and head is not None:
        raise ConfigError("Give either --head or --heads, not both.")
    if target is not None:
        _check_text("target", target)
    from regard.data.pair import Pair
    from regard.decoding.translator import Translator
    from regard.viz.output import check_suffix
    from regard.viz.trace import PICTURES

    for path in out or []:
        check_suffix(path, (*PICTURES, ".json"))
        check_target(path)
    translator = Translator.load([model, *(with_ or [])], device)
    translator.check_source()
    translator.options = options = search_options(translator.options, set_)
    (sentence,) = translator.tokenizers.tag([sentence], to)
    if target is None:
        best = translator.translate([sentence], beam=beam, prefix=[prefix], candidates=5, options=options)[0]
        text, trace = best.text, best.attention
    else:
        text, trace = target, translator.align([Pair(sentence, target)])[0]
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    trace.look(layer, head)  # what is not there is refused before anything is printed
    print(text)
    show_trace(trace, out or [], columns, wants_color(color), layer=layer, head=head, heads=heads)


def show_trace(
    trace: "AttentionTrace | ImageTrace",
    out: Sequence[Path],
    columns: int,
    color: bool,
    *,
    layer: int | None = None,
    head: int | None = None,
    heads: bool = False,
) -> None:
    """Print a trace over words or over an image, and write it to files, each in the form that its suffix names."""
    for depth, one in trace.every_head(layer) if heads else [(layer, head)]:
        print(trace.render(columns, color, layer=depth, head=one), flush=True)
    shown: tuple[Choice, Choice] = ("all" if layer is None else layer, "all") if heads else (layer, head)
    for path in out:
        for note in trace.save(path, layer=shown[0], head=shown[1], quiet=True):
            typer.echo(f"regard: {note}", err=True)
        typer.echo(f"Wrote {path}", err=True)


def _check_text(what: str, text: str) -> None:
    if not text.strip():
        raise DataError(f"The {what} is empty: there is nothing to look at.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"The {what} is not valid UTF-8: {text!r}.") from None
