"""`regard attend`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Device, Model, wants_color
from regard.errors import DataError


def attend(
    model: Model,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="What to translate.", show_default=False)],
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also write it as .png, .svg, .pdf or .json. Repeatable."),
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Show the attention for this translation instead of the model's.")
    ] = None,
    layer: Annotated[int | None, typer.Option(help="Show this layer. [the mean]")] = None,
    head: Annotated[int | None, typer.Option(help="Show this head. [the mean]")] = None,
    beam: Beam = None,
    color: Annotated[bool | None, typer.Option("--color/--no-color", help="[on a terminal]")] = None,
    width: Annotated[int | None, typer.Option(help="Columns to draw in. [the terminal's]")] = None,
    device: Device = "auto",
) -> None:
    """Show where the model looks while it translates a sentence."""
    if not sentence.strip():
        raise DataError("The sentence is empty: there is nothing to look at.")
    from regard.data.pair import Pair
    from regard.decoding.translator import Translator

    translator = Translator.load(model, device)
    if target is None:
        best = translator.translate([sentence], beam=beam, candidates=5)[0]
        text, trace = best.text, best.attention
    else:
        text, trace = target, translator.align([Pair(sentence, target)])[0]
    print(text)
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    print(trace.render(columns, wants_color(color), layer=layer, head=head))
    for path in out or []:
        for note in trace.save(path, layer=layer, head=head, quiet=True):
            typer.echo(f"regard: {note}", err=True)
        typer.echo(f"Wrote {path}", err=True)
