"""`regard demo`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import wants_color


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Where everything goes.")] = Path("demo"),
    long: Annotated[bool, typer.Option("--long", help="Train about six times as long, for a better model.")] = False,
    color: Annotated[bool | None, typer.Option("--color/--no-color", help="[on a terminal]")] = None,
) -> None:
    """Train a small translator on the embedded corpus, score it, and look at its attention; a few minutes on a CPU."""
    from regard.demo import show

    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    show(folder, long=long, width=width, color=wants_color(color), say=lambda text: print(text, flush=True))
