"""`regard`: all commands, and what happens when one fails.

Exit codes: 0 done, 1 a bug of ours or a broken pipe, 2 something the user can mend, 130 interrupted.
"""

import os
import sys
from typing import Annotated

import typer

from regard import __version__
from regard.cli.attend import attend
from regard.cli.data import data
from regard.cli.demo import demo
from regard.cli.doctor import doctor
from regard.cli.evaluate import evaluate
from regard.cli.list import list_parts
from regard.cli.train import train
from regard.cli.translate import translate
from regard.errors import RegardError

app = typer.Typer(
    name="regard",
    help="Sequence-to-sequence models with attention: train them in minutes, see where they look, ship them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (demo, train, translate, evaluate, attend):
    app.command()(command)
app.command("list")(list_parts)
for command in (data, doctor):
    app.command()(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; print a user's error without a traceback."""
    try:
        app()
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader of our output has left (`regard … | head`): what is still buffered has nowhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
