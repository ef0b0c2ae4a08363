"""`regard attend`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.attention_output import AttendRequest, Look
from regard.cli.image_inputs import Features
from regard.cli.options import (
    Beam,
    Color,
    Device,
    Model,
    Search,
    To,
    With,
    check_at_least,
    leave_out,
    wants_color,
)
from regard.errors import ConfigError, DataError


def attend(
    model: Model,
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="SENTENCE", help="What to translate, in quotes; for a model of pictures, IMAGE.", show_default=False
        ),
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE", help="Also write it as .png, .svg, .pdf, .html (to step through) or .json. Repeatable."
        ),
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
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior",
            help="Show where each token came from, by Bayes' rule, and not where the model looked.",
        ),
    ] = False,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="What the translation must start with.")] = "",
    question: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What to ask about the image, of a model that answers questions.")
    ] = None,
    features: Features = None,
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

    A row for each token written, a column for each token read; the stronger, the more it was looked at. A language
    model is made to write the sentence itself, and looks back at what stands before. A captioner's attention is laid
    over the image, once for each word, and so is that of the words of a --question and of what a detector finds; a
    classifier's image shows what speaks for its classes.
    """
    _check_text("sentence", sentence)
    check_at_least(20, width=width)
    check_at_least(1, beam=beam)
    if heads and head is not None:
        raise ConfigError("Give either --head or --heads, not both.")
    if target is not None:
        _check_text("target", target)
        asked = [name for name, value in (("prefix", prefix), ("beam", beam), ("set", set_)) if value]
        if asked:
            raise ConfigError(f"--{asked[0]} is for a search, and with --target nothing is searched.")
    columns = width if width is not None else shutil.get_terminal_size((80, 24)).columns
    from regard.models.model_folder import open_folder
    from regard.task import task_of

    task = task_of(open_folder(model).model)
    given = {
        "--target": target,
        "--posterior": posterior,
        "--prefix": prefix,
        "--with": with_,
        "--to": to,
        "--question": question,
        "--features": features,
        "--beam": beam,
        "--set": set_,
    }
    leave_out(given, task.attend_options, model, task.entry.what)
    asked_for = AttendRequest(
        what=sentence,
        out=out or [],
        look=Look(columns, wants_color(color), layer, head, heads),
        device=device,
        target=target,
        posterior=posterior,
        prefix=prefix,
        question=question,
        features=features,
        ensemble=with_ or [],
        to=to,
        beam=beam,
        changes=set_ or [],
    )
    task.attend(model, asked_for)


def _check_text(what: str, text: str) -> None:
    if not text.strip():
        raise DataError(f"The {what} is empty: there is nothing to look at.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"The {what} is not valid UTF-8: {text!r}.") from None
