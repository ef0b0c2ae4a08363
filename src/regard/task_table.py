"""The table of tasks, a line each: input, output, command and folder in `regard.tasks`.

A new task is a folder and a line here; `regard.task` defines the interface that the folder implements. Tasks are
imported lazily.
"""

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import NamedTuple

from regard.config import ModelConfig
from regard.errors import ConfigError, did_you_mean

TEXT, NOTHING, IMAGE = "text", "nothing", "image"


class TaskEntry(NamedTuple):
    """A task, described without importing its code."""

    name: str
    """Its folder in `regard/tasks`, whose `task.py` has the task object as `TASK`."""
    reads: str
    """The input: text, nothing (a language model) or image."""
    makes: str
    """The kind of output: the setting `model.task`."""
    command: str
    """The command that uses its models: `regard …`."""
    what: str
    """A model of it in words, for messages."""

    def part(self, name: str) -> ModuleType:
        """Import a module of its folder."""
        return importlib.import_module(f"regard.tasks.{self.name}.{name}")


TASKS = (
    TaskEntry("translation", TEXT, "write", "translate", "a translator, which reads texts"),
    TaskEntry("language_modelling", NOTHING, "write", "translate", "a language model, which reads no source"),
    TaskEntry("text_classification", TEXT, "classify", "classify", "a text classifier"),
    TaskEntry("captioning", IMAGE, "write", "caption", "a captioner, which describes pictures"),
    TaskEntry("image_classification", IMAGE, "classify", "classify", "an image classifier"),
    TaskEntry("visual_questions", IMAGE, "answer", "ask", "a model that answers questions"),
    TaskEntry("detection", IMAGE, "detect", "detect", "a detector, which finds objects"),
)
MAKES = tuple(dict.fromkeys(entry.makes for entry in TASKS))
BY_NAME = {entry.name: entry for entry in TASKS}
COMMANDS = {entry.command: next(one for one in TASKS if one.command == entry.command) for entry in TASKS}
"""The task whose folder has each command's `command.py`; where several tasks share a command, the first."""


def reads(model: ModelConfig) -> str:
    """Return the input of a model: text, nothing or image."""
    if model.image is not None:
        return IMAGE
    return NOTHING if model.encoder.kind == "none" else TEXT


def entry_of(model: ModelConfig) -> TaskEntry:
    """Return the task of a model; raise a ConfigError if no task has its input and output."""
    if model.task not in MAKES:
        raise ConfigError(
            f"model.task must be one of {', '.join(MAKES)}, got {model.task!r}.{did_you_mean(model.task, MAKES)}"
        )
    own = reads(model)
    able = [entry for entry in TASKS if entry.makes == model.task]
    for entry in able:
        if entry.reads == own:
            return entry
    if own == IMAGE:
        raise ConfigError(f"model.task={model.task} is for texts, and this model reads images: set model.image=none.")
    if all(entry.reads == IMAGE for entry in able):
        raise ConfigError(f"model.task={model.task} is for images, and model.image is none: set model.image.kind.")
    raise ConfigError(f"model.task={model.task} needs a source to read, and model.encoder.kind is none: set it.")


def as_options(**given: object) -> dict[str, bool]:
    """Tell which options were given, by their names on the command line."""
    names = {"ensemble": "with", "settings": "set"}
    return {
        f"--{names.get(name, name).replace('_', '-')}": bool(value) or (value == 0 and value is not False)
        for name, value in given.items()
    }


def leave_out(given: Mapping[str, object], taken: Iterable[str], model: object, what: str) -> None:
    """Raise a ConfigError for options that do not apply to a model's task."""
    wrong = [name for name, value in given.items() if value and name not in taken]
    if wrong:
        *most, last = wrong
        raise ConfigError(f"Leave out {', '.join(most)}{' and ' if most else ''}{last}: {model} holds {what}.")
