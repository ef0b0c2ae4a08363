"""A worker process of `regard translate --workers`: `regard.batch.worker_pool` starts it and speaks with it."""

import os
import sys
import traceback
from typing import IO

from regard import errors
from regard.batch.line_translator import LineTranslator
from regard.batch.translate_options import TranslateOptions
from regard.batch.worker_pool import Problem, receive, send
from regard.decoding.line_reader import Lines
from regard.errors import RegardError


def serve(coming: IO[bytes], going: IO[bytes]) -> None:
    """Load what the first message asks for, then translate lines until there are no more."""
    try:
        translator = LineTranslator(TranslateOptions.from_json(receive(coming)))
    except EOFError:
        return
    except Exception as error:
        send(going, {"error": _told(error)})
        return
    send(going, {"reads": translator.reads})
    while True:
        try:
            lines = Lines(*receive(coming))
        except EOFError:
            return
        try:
            output = translator.translate(lines)
            answer = {"rows": output.rows, "left_out": output.left_out}
            if output.error is not None:
                answer["error"] = _told(output.error)
        except Exception as error:
            answer = {"error": _told(error)}
        send(going, answer)


def _told(error: Exception) -> Problem:
    """Tell of an exception what the other process needs to raise its like."""
    known = [kind.__name__ for kind in type(error).__mro__ if getattr(errors, kind.__name__, None) is kind]
    if isinstance(error, RegardError):
        return Problem(known[0], str(error), "")
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    kind = "MemoryError" if full else "RuntimeError"
    name = "" if type(error) in (MemoryError, RuntimeError) else f"{type(error).__name__}: "
    return Problem(kind, f"{name}{error}", "".join(traceback.format_exception(error)))


def main() -> None:
    """Answer on what was the standard output; whatever else is printed goes to the standard error."""
    going = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    try:
        serve(sys.stdin.buffer, going)
    except BrokenPipeError:
        os._exit(0)  # nobody is left to answer


if __name__ == "__main__":
    main()
