"""`regard attend`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.attention_output import AttendRequest, DisplayOptions
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
    wants_color,
)
from regard.errors import ConfigError, DataError
from regard.task_table import leave_out


def attend(
    model: Model,
    sentence: Annotated[
        str,
        typer.Argument(
            metavar="SENTENCE",
            help="The sentence to translate, in quotes; for picture models, an image file.",
            show_default=False,
        ),
    ],
    out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Also save it: .png, .svg, .pdf, .html (interactive) or .json. Repeatable."),
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
        bool, typer.Option("--heads", help="Show each head separately, of --layer or of all layers.")
    ] = False,
    posterior: Annotated[
        bool,
        typer.Option(
            "--posterior",
            help="Show the posterior of the source position given each token (Bayes' rule) instead of the attention.",
        ),
    ] = False,
    prefix: Annotated[str, typer.Option(metavar="TEXT", help="Force the translation to start with this text.")] = "",
    question: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="The question about the image, for a model that answers questions."),
    ] = None,
    features: Features = None,
    with_: With = None,
    to: To = None,
    beam: Beam = None,
    set_: Search = None,
    color: Color = None,
    width: Annotated[
        int | None, typer.Option(metavar="N", help="Width of the drawing in columns.  [default: the terminal's]")
    ] = None,
    device: Device = "auto",
) -> None:
    """Show a model's attention for one sentence or image.

    Translators: a row per target token, a column per source token; stronger shading means more weight. Language
    models: the self-attention over the sentence itself, with teacher forcing. Captioners, question answerers and
    detectors: the attention over the image, once per word or detected object. Image classifiers: Grad-CAM
    and attention rollout of the top classes.
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
            raise ConfigError(f"--{asked[0]} cannot be combined with --target: a given target is not searched for.")
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
        look=DisplayOptions(columns, wants_color(color), layer, head, heads),
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
        raise DataError(f"The {what} is empty: give some text.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise DataError(f"The {what} is not valid UTF-8: {text!r}.") from None
