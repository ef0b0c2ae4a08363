"""The served models: loaded from their folders and found by name or task."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.config import Config
from regard.errors import ConfigError, ModelError, RegardError, did_you_mean
from regard.models.model_folder import learned, open_folder
from regard.task import Task, task_of
from regard.task_table import IMAGE, TEXT


class NoModelError(RegardError):
    """A model that is not served."""


@dataclass(frozen=True, eq=False)
class Served:
    """A loaded model."""

    name: str
    task: Task
    reader: Any
    """The task's inference object, such as a `Translator`."""
    config: Config


def open_models(folders: Sequence[Path], device: str = "cpu") -> list[Served]:
    """Load model folders; a model's name is its folder's, with as many parent folders as make the names unique."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("A model folder is given twice: give each once.")
    configs = [open_folder(folder) for folder in folders]
    tasks = [task_of(config.model) for config in configs]
    for task, folder, config in zip(tasks, folders, configs, strict=True):
        task.check_served(folder, config)
    return [
        Served(name, task, task.load(folder, device), config)
        for name, task, folder, config in zip(_names(folders), tasks, folders, configs, strict=True)
    ]


def _names(folders: Sequence[Path]) -> list[str]:
    whole = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return names


def find(models: Iterable[Served], path: str, name: str | None) -> Served:
    """Return the model of a name; without a name, the first of the endpoint's task."""
    able = [model for model in models if model.task.path == path]
    if name is None:
        if not able:
            raise NoModelError(f"No served model supports /api/{path}. GET /api/models lists the models.")
        return able[0]
    for model in models:
        if model.name == name:
            if model not in able:
                raise ModelError(f"{name} {model.task.does}: POST to /api/{model.task.path} instead.")
            return model
    names = [model.name for model in able]
    others = f" Served here: {', '.join(names)}." if names else ""
    raise NoModelError(f"There is no model {name!r}.{did_you_mean(name, names)}{others}")


def about(model: Served) -> dict[str, Any]:
    """Return a model's entry in `/api/models`."""
    task, config = model.task, model.config
    return {
        "name": model.name,
        "task": task.served_as,
        "reads": IMAGE if task.entry.reads == IMAGE else TEXT,
        "path": f"/api/{task.path}",
        "does": task.does,
        "preset": config.preset,
        "parameters": learned(model.reader.model),
        "beam": config.decoding.beam if config.decoding.method == "beam" else 1,
        "tags": [],
        "examples": [],
        "scenes": False,
        **task.about(model.reader, config),
    }
