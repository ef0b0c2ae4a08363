"""All tasks, a line each: what a model reads, what it makes of it, and which folder of `regard.tasks` knows the rest.

A new task is such a folder and a line here; `regard.task` has the contract that the folder's object meets. Nothing of a
task is imported before it is asked for.
"""

import importlib
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import NamedTuple

from regard.config import ModelConfig
from regard.errors import ConfigError, did_you_mean

TEXT, NOTHING, IMAGE = "text", "nothing", "image"


class Entry(NamedTuple):
    """A task, as far as it can be told without importing it."""

    name: str
    """Its folder in `regard/tasks`; `TASK` in its `task.py` is the object that everything else asks."""
    reads: str
    """text, nothing (a language model) or image."""
    makes: str
    """What is made of what was read: the setting `model.task`."""
    command: str
    """`regard …` for a model of it."""
    what: str
    """A model of it, in words."""

    def part(self, name: str) -> ModuleType:
        """Import a module of its folder."""
        return importlib.import_module(f"regard.tasks.{self.name}.{name}")


TASKS = (
    Entry("translation", TEXT, "write", "translate", "a translator, which reads texts"),
    Entry("language_modelling", NOTHING, "write", "translate", "a language model, which reads no source"),
    Entry("text_classification", TEXT, "classify", "classify", "a text classifier"),
    Entry("captioning", IMAGE, "write", "caption", "a captioner, which describes pictures"),
    Entry("image_classification", IMAGE, "classify", "classify", "a classifier of pictures"),
    Entry("visual_questions", IMAGE, "answer", "ask", "a model that answers questions"),
    Entry("detection", IMAGE, "detect", "detect", "a detector, which finds things"),
)
MAKES = tuple(dict.fromkeys(entry.makes for entry in TASKS))
BY_NAME = {entry.name: entry for entry in TASKS}
COMMANDS = {entry.command: next(one for one in TASKS if one.command == entry.command) for entry in TASKS}
"""Which task's folder has a command: `command.py`; where several share one, the first."""


def reads(model: ModelConfig) -> str:
    """Tell what a model reads."""
    if model.image is not None:
        return IMAGE
    return NOTHING if model.encoder.kind == "none" else TEXT


def entry_of(model: ModelConfig) -> Entry:
    """Return the task of a model; raise a ConfigError where there is none for what it reads and makes."""
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
    """Refuse options that mean nothing for a model's task."""
    wrong = [name for name, value in given.items() if value and name not in taken]
    if wrong:
        *most, last = wrong
        raise ConfigError(f"Leave out {', '.join(most)}{' and ' if most else ''}{last}: {model} holds {what}.")
