"""The models that are served: opened from their folders, found by name, each with the task that it does."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from regard.config import Config
from regard.data.builtin_corpora import corpora
from regard.decoding.finder import Finder
from regard.decoding.labeller import Labeller
from regard.decoding.narrator import Narrator
from regard.decoding.respondent import Respondent
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError, RegardError, did_you_mean
from regard.models.model_folder import learned, open_folder
from regard.vision.build import WRITE

REGIONS = "regions"
EXAMPLES = 3
"""Texts to try a model with, where it was trained on an embedded corpus."""
_SHORT = range(10, 70)
"""Characters of those."""


class NoModelError(RegardError):
    """A model that is not served."""


class Task(NamedTuple):
    """What models of one kind do for a client."""

    reads: str
    """`text` or `image`."""
    path: str
    """Where it is asked for: `/api/` and this."""
    does: str
    load: Callable[[Path, str], Any]


TASKS: dict[str, Task] = {
    "translate": Task("text", "translate", "translates texts", Translator.load),
    "continue": Task("text", "translate", "continues texts", Translator.load),
    "caption": Task("image", "caption", "describes pictures", Narrator.load),
    "classify": Task("image", "classify", "tells what pictures are of", Labeller.load),
    "answer": Task("image", "ask", "answers questions about pictures", Respondent.load),
    "detect": Task("image", "detect", "finds things in pictures", Finder.load),
}
"""By what a model is for. The page shows a tab for what is read, and in it what the task has to show."""


@dataclass(frozen=True, eq=False)
class Served:
    """A model that is ready to be asked."""

    name: str
    task: str
    reader: Any
    """What does the task, with the model inside."""
    config: Config


def open_models(folders: Sequence[Path], device: str = "cpu") -> list[Served]:
    """Open model folders; a model's name is its folder's, or with as much before it as tells it from the others."""
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise ConfigError("A model folder is given twice: give each once.")
    configs = [open_folder(folder) for folder in folders]
    tasks = [_task(folder, config) for folder, config in zip(folders, configs, strict=True)]
    return [
        Served(name, task, TASKS[task].load(folder, device), config)
        for name, task, folder, config in zip(_names(folders), tasks, folders, configs, strict=True)
    ]


def _task(folder: Path, config: Config) -> str:
    """Tell what a model is for."""
    model = config.model
    if model.image is None:
        return "continue" if model.encoder.kind == "none" else "translate"
    if model.image.kind == REGIONS:
        raise ModelError(
            f"{folder} reads features of regions that another network made, and no pixels, so pictures cannot be shown "
            "to it: serve a model that was trained on pictures."
        )
    return "caption" if model.task == WRITE else model.task


def _names(folders: Sequence[Path]) -> list[str]:
    whole = [folder.resolve().parts for folder in folders]
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return names


def find(models: Iterable[Served], path: str, name: str | None) -> Served:
    """Return the model that is asked for; without a name, the first that does the task."""
    able = [model for model in models if TASKS[model.task].path == path]
    if name is None:
        if not able:
            raise NoModelError(f"No model here can be asked to {path}. GET /api/models tells what there is.")
        return able[0]
    for model in models:
        if model.name == name:
            if model not in able:
                task = TASKS[model.task]
                raise ModelError(f"{name} {task.does}: POST to /api/{task.path} instead.")
            return model
    names = [model.name for model in able]
    others = f" Served here: {', '.join(names)}." if names else ""
    raise NoModelError(f"There is no model {name!r}.{did_you_mean(name, names)}{others}")


def about(model: Served) -> dict[str, Any]:
    """Return what a client needs to know of a model."""
    task, config = TASKS[model.task], model.config
    return {
        "name": model.name,
        "task": model.task,
        "reads": task.reads,
        "path": f"/api/{task.path}",
        "does": task.does,
        "preset": config.preset,
        "parameters": learned(model.reader.model),
        "beam": config.decoding.beam if config.decoding.method == "beam" else 1,
        "tags": list(model.reader.tokenizers.tags) if task.reads == "text" else [],
        "examples": _examples(model),
        "scenes": task.reads == "image" and bool(config.data.train) and config.data.train[0].startswith("scenes"),
    }


def _examples(model: Served) -> list[str]:
    """Return held-out texts of the embedded corpus that a model was trained on, if it was on one."""
    name = (*model.config.data.train, "")[0].partition(":")[0]
    if model.task != "translate" or name not in corpora or model.reader.tokenizers.tags:
        return []
    short = (pair.source for pair in corpora[name]("test", 100, 1) if len(pair.source) in _SHORT)
    return list(islice(short, EXAMPLES))
