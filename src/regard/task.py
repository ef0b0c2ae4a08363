"""What a task is: one object that training, evaluation, comparison, serving, export and the command line ask.

Translating, language modelling, captioning, classifying, answering and detecting each have a folder in `regard.tasks`
with such an object, and a line in `regard.task_table`. All that is asked of it is here, so that a new task changes
nothing else. What is typed `Any` is a task's own (vocabulary, sources of data, reader) or belongs to a layer
above this module, and is named in the docstring.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from regard.config import Config, DecodingConfig, ModelConfig, TrainingConfig
from regard.decoding.model_loading import find_device
from regard.errors import ModelError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.report import Report
from regard.models.build import SkipInitialisation
from regard.models.model_folder import WEIGHTS, load_weights, open_folder
from regard.models.pointer_generator import check_copying
from regard.shapes import Float, Tensor
from regard.task_table import Entry, entry_of

Rows = NDArray[np.int64]
Say = Callable[[str], None]
"""Tells a person something, in a line."""
Validate = Callable[[Any, Callable[[], None]], dict[str, Any]]
"""Scores a model: `valid_loss` and more. It calls what it is given now and then, to be stopped by it.

Where several processes train, each scores a part (`regard.distributed.share`) and all return the same.
"""


class StoppedError(Exception):
    """Raised inside a validation when the run was asked to stop."""


class BatchLoss(NamedTuple):
    """The loss of a batch, in sums over what its `count` counts: tokens, pictures, questions or objects."""

    total: Float[Tensor, ""]
    """What is minimised."""
    loss: Float[Tensor, ""]
    """The cross-entropy in it, label smoothing included, detached."""
    beside: dict[str, Tensor]
    """The other losses in it, each without its weight and detached, by its name in metrics.jsonl."""
    reached: Float[Tensor, " B"] | None
    """The reward of each sentence where hard attention is trained."""


@runtime_checkable
class Objective(Protocol):
    """The loss of a batch, and what is done around it.

    A batch has `to(device)`, `pinned()` and `count`, the number its summed losses are divided by. `read` and `write`
    are the two halves of `__call__` where steps are recorded as CUDA graphs; who reads within `write` gives None.
    """

    @property
    def reads_with_host(self) -> bool:
        """Whether reading asks the host for something, so that it cannot be recorded."""

    def __call__(self, batch: Any, ratio: float = 1.0) -> BatchLoss:
        """Run the model over a batch; `ratio` is that of teacher forcing."""

    def read(self, batch: Any) -> Any:
        """Let the model read."""

    def write(self, batch: Any, encoded: Any, ratio: float = 1.0) -> BatchLoss:
        """Make the loss of what was read."""

    def settle(self, reached: list[Tensor]) -> None:
        """Be told the rewards of a step, once it is made."""

    def check(self, batch: Any) -> None:
        """Raise a ConfigError for what only the model and the corpus show to be wrong."""


@dataclass(frozen=True)
class TrainingData:
    """What a run learns from and is scored on."""

    order: Callable[[int], Sequence[Rows]]
    """The batches of an epoch, counted from 1, as rows of the corpus: a pure function."""
    batch: Callable[[Rows], Any]
    """The tensors of a batch, on the CPU."""
    validate: Validate | None
    """None where there is no validation corpus: the last model is then the one to use."""
    fingerprint: str
    """What the corpus and its tokens are known by."""
    decoding: DecodingConfig
    """How to search: as was asked, with as long an output as the corpus calls for."""
    objective: Callable[[Any, TrainingConfig], Objective]
    """The loss, of a model and by a run's settings."""
    unit: str = "tokens"
    """What the `count` of a batch counts."""
    count: Callable[[Rows], int] | None = None
    """The `count` of the batch of some rows, without making it; None where that is not known any faster."""
    each: int = 1
    """How many rows belong together, one after the other, such as the captions of a picture that is read once."""


@dataclass(frozen=True)
class EvaluationRequest:
    """What `regard evaluate` was asked for."""

    parts: Sequence[str]
    """The corpus."""
    split: str = "test"
    device: str = "auto"
    beam: int | None = None
    batch_size: int | None = None
    changes: Sequence[str] = ()
    """Changed settings of the search, as NAME=VALUE."""
    reading: Reading | None = None
    """How attention is read off as an alignment, where that was said."""
    ensemble: Sequence[Path] = ()
    to: str | None = None
    group: bool = False
    reverse_model: Path | None = None


class Task(ABC):
    """What is made of what was read, with all that the package needs to know of it."""

    entry: ClassVar[Entry]

    # -- settings -----------------------------------------------------------------------------------------------------

    metrics: ClassVar[tuple[str, ...]]
    """What may decide which model is best, beside the loss."""
    unread: ClassVar[tuple[str, ...]] = ()
    """Settings of training that its loss does not read."""
    planned: ClassVar[bool] = False
    """Whether `regard train` plans what nobody set."""
    compares_losses: ClassVar[bool] = True
    """Whether the loss of training is that of validation, so that a report may compare them."""

    def check(self, config: Config) -> None:  # noqa: B027 (most have nothing to refuse)
        """Raise a ConfigError for settings and data that do not go together, before anything is done."""

    def fitted(self, config: Config) -> Config:
        """Fit a model to its data: how many colours its pictures have, say."""
        return config

    def records_steps(self, model: ModelConfig) -> bool:
        """Say whether batches may be filled up to few shapes, so that steps can be recorded as CUDA graphs."""
        return True

    # -- the model ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Make the model; the sizes are how many entries it reads and writes by number."""

    @abstractmethod
    def draw(self, model: nn.Module) -> None:
        """Draw its first weights from torch's generator."""

    @abstractmethod
    def read_vocabulary(self, folder: Path) -> Any:
        """Read what a model knows by number: tokens, classes, answers."""

    @abstractmethod
    def sizes(self, vocabulary: Any) -> tuple[int, int]:
        """Return how many entries there are to read and to write."""

    # -- training -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the corpora, so that what is wrong with them shows at once.

        What is returned is a dataclass with a field `vocabulary`: the one to take, or None to learn it.
        """

    @abstractmethod
    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Any, TrainingData]:
        """Make vocabulary and caches in a model folder, or take those that a resumed run made when it began."""

    def finish(self, folder: Path) -> None:  # noqa: B027 (most have nothing to add)
        """Add to a trained model's folder what needs its training data."""

    def try_it(self, config: Config, folder: Path) -> str:
        """Say with which command a model that was just trained is tried."""
        return f"Try it with: regard {self.entry.command} {folder} IMAGE"

    # -- use ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, folder: Path, device: str) -> Any:
        """Open a model folder, ready to be used."""

    scoring_options: ClassVar[frozenset[str]] = frozenset()
    """The options of `regard evaluate` that not all tasks have and that mean something here, as they are typed."""

    @abstractmethod
    def evaluate(self, folder: Path, asked: EvaluationRequest) -> Report:
        """Score a model on a corpus."""

    # -- comparison: what `regard compare` scores and shows (see regard.compare.scoring) -------------------------------

    @abstractmethod
    def open_test(self, test: Any, config: Config) -> Any:
        """Open the corpus that variants are scored on (a `HeldOut`); it has a `name` and an `identity()`."""

    @abstractmethod
    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return what is right in that corpus, and what of it is shown (a `Subject`)."""

    @abstractmethod
    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model (`regard.compare.scoring.Tested`)."""

    # -- serving ------------------------------------------------------------------------------------------------------

    served_as: ClassVar[str]
    """The task in `/api/models`."""
    path: ClassVar[str]
    """Where it is asked for: `/api/` and this."""
    does: ClassVar[str]
    """What a model of it does for a client."""

    def check_served(self, folder: Path, config: Config) -> None:  # noqa: B027 (most can be served)
        """Raise a ModelError for a model that no client could ask."""

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Return what else a client is told: `tags`, `examples` to try a model with, whether there are `scenes`."""
        return {}

    @abstractmethod
    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return the FastAPI router of what can be asked; None where another task's serves it."""

    # -- attention and export -----------------------------------------------------------------------------------------

    attend_options: ClassVar[frozenset[str]] = frozenset()
    """The options of `regard attend` that not all tasks have and that mean something here, as they are typed."""

    @abstractmethod
    def attend(self, folder: Path, asked: Any) -> None:
        """Print and write where a model looks (`regard.cli.attention_output.AttendRequest`)."""

    @abstractmethod
    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what ONNX graphs are made of (`regard.export.export_model.Exportable`)."""


def open_task(entry: Entry) -> Task:
    """Import a task's object."""
    task: Task = entry.part("task").TASK
    return task


def task_of(model: ModelConfig) -> Task:
    """Return the task that a model is for."""
    return open_task(entry_of(model))


def build(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the model that a configuration describes, and draw its first weights."""
    task = task_of(config)
    model = task.assemble(config, source_size, target_size)
    task.draw(model)
    return model


def build_empty(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Make the same model, but draw no weights, which takes most of the time: others are to be read into it."""
    with SkipInitialisation():
        return task_of(config).assemble(config, source_size, target_size)


def check_task(config: ModelConfig) -> None:
    """Refuse a task that there is none of, or that nothing is there for."""
    entry_of(config)
    check_copying(config)


class Opened(NamedTuple):
    """What a model folder holds."""

    model: Any
    vocabulary: Any
    config: Config


def open_model(folder: Path, device: str, entry: Entry) -> Opened:
    """Read the folder of a model for a task; refuse those of another with the command that they are for."""
    config = open_folder(folder)
    own = entry_of(config.model)
    if own != entry:
        raise ModelError(f"{folder} holds {own.what}: use regard {own.command}.")
    place, task = find_device(device), task_of(config.model)
    vocabulary = task.read_vocabulary(folder)
    # Whatever is drawn at random is replaced: the caller's generator is to stay as it was.
    with torch.random.fork_rng(devices=[]):
        model = build_empty(config.model, *task.sizes(vocabulary))
    load_weights(folder / WEIGHTS, model)
    return Opened(model.to(place).eval(), vocabulary, config)
