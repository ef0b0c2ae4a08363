"""`regard`: all commands, and how errors are reported.

Exit codes: 0 success, 1 a bug in regard or a broken pipe, 2 an error the user can fix, 130 interrupted.
"""

import atexit
import gc
import io
import os
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from regard import __version__
from regard.cli.align import align
from regard.cli.attend import attend
from regard.cli.compare import compare
from regard.cli.completion import BASH, answer_bash
from regard.cli.data import data
from regard.cli.demo import demo
from regard.cli.doctor import doctor
from regard.cli.evaluate import evaluate
from regard.cli.export import export
from regard.cli.list import list_parts
from regard.cli.serve import serve
from regard.cli.train import train
from regard.errors import RegardError
from regard.task_table import COMMANDS as TASK_COMMANDS

app = typer.Typer(
    name="regard",
    help="Sequence-to-sequence models with attention: train them in minutes, see where they look, ship them.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": demo,
    "train": train,
    **{name: getattr(entry.part("command"), name) for name, entry in TASK_COMMANDS.items()},
    "evaluate": evaluate,
    "attend": attend,
    "align": align,
    "compare": compare,
    "serve": serve,
    "export": export,
    "list": list_parts,
    "data": data,
    "doctor": doctor,
}
for _name, _command in COMMANDS.items():
    app.command(_name)(_command)


def _show_version(wanted: bool) -> bool:
    if wanted:
        print(f"regard {__version__}")
        raise typer.Exit
    return wanted


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    pass


def run() -> None:
    """Run the command line; print a user's error without a traceback."""
    atexit.register(gc.freeze)  # skip the final garbage collection over all of torch: saves 0.4 s at exit
    _prepare_streams()
    try:
        try:
            if BASH.items() <= os.environ.items():
                answer_bash(app)
            else:
                app()
        finally:
            sys.stdout.flush()  # here rather than at interpreter exit, so that errors can be reported
    except RegardError as error:
        print(f"regard: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:
        # The reader closed the pipe (`regard … | head`).
        _discard_output()
        sys.exit(1)
    except OSError as error:
        # A full disk or a missing permission is not a bug, and a traceback would not help.
        _discard_output()
        where = "Cannot write the output" if error.filename is None else error.filename
        print(f"regard: {where}: {error.strerror or error}.", file=sys.stderr)
        sys.exit(2)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        print("regard: Out of memory. Use a smaller model, training.batch_tokens or --batch.", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _prepare_streams() -> None:
    """Use UTF-8 for files and pipes whatever the locale; on a terminal, print `?` for what it cannot show.

    A stream that the caller has closed (`>&-`) is replaced by the null device.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (for as long as the process lives)
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors=errors)


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether an error means out of memory: torch has an exception class on a GPU, only a message on a CPU."""
    by_kind = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    return by_kind or "can't allocate memory" in str(error)


def _discard_output() -> None:
    """Redirect stdout to the null device, so that flushing its buffer at exit does not fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
