"""`regard classify`, of texts and of pictures."""

import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Color, Device, Model, check_at_least, wants_color
from regard.errors import ConfigError, DataError
from regard.tasks.captioning.command import Images


def classify(
    model: Model,
    images: Images = None,
    top: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Print this many classes, the most probable first.  [default: 1 of texts, 3 of pictures]"
        ),
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="Texts: print each text with its words shaded by their attention.")
    ] = False,
    color: Color = None,
    device: Device = "auto",
) -> None:
    """Tell which classes texts or pictures are of.

    Texts come from standard input, one a line, and line i of the output is about line i of the input: the
    probability and the class, separated by a tab; with --top, further pairs of them follow on the line. An empty line
    stays empty. Pictures are named as arguments: a line is a probability and a class; of several pictures, the
    picture's name comes first, and what cannot be read is told of and left out.
    """
    check_at_least(1, top=top)
    from regard.models.model_folder import open_folder
    from regard.task_table import IMAGE, entry_of

    if entry_of(open_folder(model).model).reads == IMAGE:
        if attention:
            raise ConfigError(f"--attention is for texts: regard attend {model} IMAGE shows what speaks for a class.")
        from regard.tasks.image_classification.print_classes import print_classes

        print_classes(model, images or [], 3 if top is None else top, device)
    else:
        if images:
            raise DataError(f"{model} classifies texts: give them by standard input (regard classify {model} < texts).")
        _print_texts(model, 1 if top is None else top, attention, wants_color(color), device)


def _print_texts(model: Path, top: int, attention: bool, color: bool, device: str) -> None:
    from regard.decoding.line_reader import as_they_come
    from regard.tasks.text_classification.predictor import TextLabeller
    from regard.viz.shaded_text import shaded_lines

    labeller = TextLabeller.load(model, device)
    if sys.stdin.isatty():
        typer.echo("Type what to classify, a text a line; Ctrl-D ends.", err=True)
    columns = shutil.get_terminal_size((80, 24)).columns
    for lines in as_they_come(sys.stdin.buffer):
        there = [text for text in lines.texts if text.strip()]
        found = iter(labeller.classify(there, top))
        for text in lines.texts:
            if not text.strip():
                print()
                continue
            made = next(found)
            print("\t".join(f"{guess.probability:.4f}\t{guess.label}" for guess in made.guesses))
            if attention:
                print(shaded_lines(made.attention, width=columns, color=color, sentences=made.sentences), end="\n\n")
        sys.stdout.flush()
