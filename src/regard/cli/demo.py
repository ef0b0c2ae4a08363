"""`regard demo`."""

import shutil
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Color, wants_color
from regard.errors import ConfigError, did_you_mean
from regard.task_table import BY_NAME

TASKS = {"translate": "translation", "caption": "captioning"}
"""Demos by their `--task` name, and the task folder that has each."""


def demo(
    folder: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for models and pictures.")] = Path("demo"),
    task: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="translate (sentences) or caption (pictures).", autocompletion=lambda: list(TASKS)
        ),
    ] = "translate",
    long: Annotated[bool, typer.Option("--long", help="Train much longer for a better model.")] = False,
    color: Color = None,
) -> None:
    """Train a small model, score it and look at its attention.

    The model translates English to French; with --task caption it describes pictures. The demo takes a few minutes on
    a CPU and needs no network. A second run reuses the trained model.
    """
    if task not in TASKS:
        raise ConfigError(f"--task is one of {', '.join(TASKS)}, got {task!r}.{did_you_mean(task, TASKS)}")
    width = min(shutil.get_terminal_size((80, 24)).columns, 120)
    show = BY_NAME[TASKS[task]].part("demo").show
    show(folder, long=long, width=width, color=wants_color(color), say=lambda text: print(text, flush=True))
