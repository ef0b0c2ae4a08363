"""All errors that are due to what a user gave, as one tree.

RegardError
├── ConfigError      a setting, preset or part that does not exist or does not fit the others
├── DataError        a corpus, a line of it, or a tokenizer that cannot be used
├── ModelError       a model folder that is missing, incomplete, or made for something else
├── TrainingError    a run that cannot start, continue or be resumed
└── DisplayError     a picture that cannot be drawn or written

The command line prints only the message of these, without a traceback, and exits with 2. A message says what is wrong,
what was given, what is allowed, and the nearest fix. Any other exception is a bug of this package.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class RegardError(Exception):
    """Base of all errors that a user can fix."""


class ConfigError(RegardError):
    """A setting, preset or part that does not exist or does not fit the others."""


class DataError(RegardError):
    """A corpus, a line of it, or a tokenizer that cannot be used."""


class ModelError(RegardError):
    """A model folder that is missing, incomplete, or made for something else."""


class TrainingError(RegardError):
    """A run that cannot start, continue or be resumed."""


class DisplayError(RegardError):
    """A picture that cannot be drawn or written."""


def did_you_mean(name: str, allowed: Iterable[str], cutoff: float = 0.6) -> str:
    """Return ` Did you mean 'x'?` for the nearest allowed name, or nothing if none is near (cutoff 1: equal names)."""
    near = get_close_matches(name, list(allowed), n=1, cutoff=cutoff)
    return f" Did you mean {near[0]!r}?" if near else ""


def first_line(error: BaseException, longest: int = 300) -> str:
    """Return the first line of the message of an error that is not ours, shortened and without its full stop."""
    text = str(error).partition("\n")[0]
    return text.removesuffix(".") if len(text) <= longest else f"{text[:longest]}…"
