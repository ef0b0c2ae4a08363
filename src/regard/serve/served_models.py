"""The served models: loaded from their folders, found by name or task, and replaced while requests are answered."""

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, overload

from regard.config import Config
from regard.data.languages import LanguagePair, language_pairs
from regard.errors import ConfigError, ModelError, RegardError, did_you_mean
from regard.models.model_folder import learned, open_folder
from regard.task import Task, task_of
from regard.task_table import IMAGE, TEXT

logger = logging.getLogger("regard")


class NoModelError(RegardError):
    """A model that is not served."""


@dataclass(frozen=True, eq=False)
class Served:
    """A loaded model. A request keeps the one that it began with, so jobs are batched by this object, not by name."""

    name: str
    task: Task
    reader: Any
    """The task's inference object, such as a `Translator`."""
    config: Config

    @cached_property
    def pairs(self) -> list[LanguagePair]:
        """The pairs of languages that the model translates, if it says them."""
        translates = self.task.entry.name == "translation"
        return language_pairs(self.config.data, self.reader.tokenizers.tags) if translates else []

    @cached_property
    def entry(self) -> dict[str, Any]:
        """The model's entry in `/api/models`."""
        task, config = self.task, self.config
        return {
            "name": self.name,
            "task": task.served_as,
            "reads": IMAGE if task.entry.reads == IMAGE else TEXT,
            "path": f"/api/{task.path}",
            "does": task.does,
            "preset": config.preset,
            "parameters": learned(self.reader.model),
            "beam": config.decoding.beam if config.decoding.method == "beam" else 1,
            "from_languages": list(dict.fromkeys(pair.source for pair in self.pairs)),
            "to_languages": list(dict.fromkeys(pair.target for pair in self.pairs)),
            "tags": [],
            "examples": [],
            "scenes": False,
            **task.about(self.reader, config),
        }


class ServedModels(Sequence[Served]):
    """The models of a server, in the order of their folders.

    `reload` replaces them while requests are answered: look models up in each request (`find`), and keep what was found
    until the request is answered.
    """

    def __init__(self, folders: Sequence[Path], device: str = "cpu") -> None:
        if len({folder.resolve() for folder in folders}) < len(folders):
            raise ConfigError("A model folder is given twice: give each once.")
        self._folders = dict(zip(_names(folders), folders, strict=True))
        self._device = device
        self._reloading = Lock()
        checked = [_check(folder) for folder in folders]  # all, before any is loaded
        self._now = tuple(map(self._load, self._folders, checked))

    @overload
    def __getitem__(self, place: int) -> Served: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[Served]: ...

    def __getitem__(self, place: int | slice) -> Served | Sequence[Served]:
        """Return a model."""
        return self._now[place]

    def __iter__(self) -> Iterator[Served]:
        """Iterate over the models of this moment, whatever is reloaded meanwhile."""
        return iter(self._now)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._now)

    def reload(self) -> bool:
        """Load all folders again beside the present models, then replace these; return whether all could be loaded.

        A folder that cannot be loaded keeps its present model, and the log says why.
        """
        with self._reloading:
            made, whole = [], True
            for own, (name, folder) in zip(self._now, self._folders.items(), strict=True):
                try:
                    made.append(self._load(name, _check(folder)))
                except Exception as error:  # whatever is wrong with a folder, what is served goes on being served
                    logger.error(f"{name} is not reloaded, the old model stays: {error}")
                    made.append(own)
                    whole = False
            self._now = tuple(made)
        return whole

    def _load(self, name: str, checked: tuple[Task, Config]) -> Served:
        task, config = checked
        served = Served(name, task, task.load(self._folders[name], self._device), config)
        _ = served.entry  # once, and now: it counts parameters
        return served


def open_models(folders: Sequence[Path], device: str = "cpu") -> ServedModels:
    """Load model folders; a model's name is its folder's, with as many parent folders as make the names unique."""
    return ServedModels(folders, device)


def _check(folder: Path) -> tuple[Task, Config]:
    config = open_folder(folder)
    task = task_of(config.model)
    task.check_served(folder, config)
    return task, config


def _names(folders: Sequence[Path]) -> list[str]:
    whole = [Path(os.path.abspath(folder)).parts for folder in folders]  # of a link, its own name
    for count in range(1, max(map(len, whole)) + 1):
        names = ["/".join(parts[-count:]) for parts in whole]
        if len(set(names)) == len(names):
            break
    return names


def find(models: Iterable[Served], path: str, name: str | None) -> Served:
    """Return the model of a name; without a name, the first of the endpoint's task."""
    models = tuple(models)
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


def beam_for(model: Served, beam: int | None, n_best: int) -> int:
    """Return the beam size of a request: the given one or the model's own, but at least as many as are to be returned.

    Otherwise some requests that fit the API's description would be refused.
    """
    own = model.config.decoding
    return max(beam or own.beam, n_best if own.method == "beam" else 1)
