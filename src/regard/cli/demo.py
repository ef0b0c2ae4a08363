"""`regard demo`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Color, wants_color


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything goes.")] = Path("demo"),
    long: Annotated[bool, typer.Option("--long", help="Train about six times as long, for a better model.")] = False,
    color: Color = None,
) -> None:
    """Train a small translator, score it and look at its attention.

    Takes a few minutes on a CPU and no network; a second run uses what the first has trained.
    """
    from regard.demo import show

    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    show(folder, long=long, width=width, color=wants_color(color), say=lambda text: print(text, flush=True))
