"""The interface of a task: one object that training, evaluation, comparison, serving, export and the CLI call.

Each task (translation, language modelling, captioning, classification, question answering, detection) has a folder in
`regard.tasks` with such an object, and a line in `regard.task_table`. Adding a task changes nothing else. Values typed
`Any` are a task's own (vocabulary, data sources, reader) or belong to a layer above this module; the docstring names
them.
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
from regard.models.model_folder import build_and_load, open_folder
from regard.models.pointer_generator import check_copying
from regard.shapes import Float, Tensor
from regard.task_table import TaskEntry, entry_of

Rows = NDArray[np.int64]
Say = Callable[[str], None]
"""Prints one line of progress for the user."""
Validate = Callable[[Any, Callable[[], None]], dict[str, Any]]
"""Scores a model; returns `valid_loss` and more. It calls its second argument between batches, which may raise
StoppedError.

In distributed training each process scores a part (`regard.distributed.share`), and all return the same.
"""


class StoppedError(Exception):
    """Raised inside a validation when the run is to stop."""


class BatchLoss(NamedTuple):
    """The losses of a batch, summed over the units of `count`: tokens, pictures, questions or objects."""

    total: Float[Tensor, ""]
    """The loss to minimise."""
    loss: Float[Tensor, ""]
    """The cross-entropy in `total`, label smoothing included, detached."""
    beside: dict[str, Tensor]
    """The auxiliary losses, unweighted and detached, by their names in metrics.jsonl."""
    reached: Float[Tensor, " B"] | None
    """The reward of each sentence, where hard attention is trained by REINFORCE."""


@runtime_checkable
class Objective(Protocol):
    """The loss function of a task.

    A batch has `to(device)`, `pinned()` and `count`, the number by which its summed losses are divided. `read`
    (encoder) and `write` (decoder and loss) are the two halves of `__call__`, split so that `write` can be recorded as
    a CUDA graph by itself. An objective that does everything in `write` returns None from `read`.
    """

    @property
    def reads_with_host(self) -> bool:
        """Whether `read` synchronises with the host, so that it cannot be part of a CUDA graph."""

    def __call__(self, batch: Any, ratio: float = 1.0) -> BatchLoss:
        """Return the losses of a batch; `ratio` is the teacher forcing ratio."""

    def read(self, batch: Any) -> Any:
        """Run the encoder."""

    def write(self, batch: Any, encoded: Any, ratio: float = 1.0) -> BatchLoss:
        """Run the decoder on the encoded batch and return the losses."""

    def settle(self, reached: list[Tensor]) -> None:
        """Update reward baselines after an optimizer step, from the `reached` of all its batches."""

    def check(self, batch: Any) -> None:
        """Raise a ConfigError for problems that show only with the model and a batch at hand."""


@dataclass(frozen=True)
class TrainingData:
    """The training and validation data of a run, with the loss."""

    order: Callable[[int], Sequence[Rows]]
    """Returns the batches of an epoch (counted from 1) as row numbers of the corpus; a pure function."""
    batch: Callable[[Rows], Any]
    """Collates rows into a batch of CPU tensors."""
    validate: Validate | None
    """Scores the model during training; None without a validation corpus: the last model is then kept."""
    fingerprint: str
    """A checksum of the corpus and its tokens."""
    decoding: DecodingConfig
    """The decoding settings, with the maximum output length raised where the corpus needs it."""
    objective: Callable[[Any, TrainingConfig], Objective]
    """Makes the loss function from a model and the training settings."""
    unit: str = "tokens"
    """The unit of a batch's `count`."""
    count: Callable[[Rows], int] | None = None
    """Returns the `count` of the batch of some rows without making it; None if there is no faster way."""
    each: int = 1
    """How many consecutive rows belong together, such as the captions of a picture that is encoded once."""


@dataclass(frozen=True)
class EvaluationRequest:
    """The arguments of `regard evaluate`."""

    parts: Sequence[str]
    """The corpus."""
    split: str = "test"
    device: str = "auto"
    beam: int | None = None
    batch_size: int | None = None
    changes: Sequence[str] = ()
    """Overrides of decoding settings, as NAME=VALUE."""
    reading: Reading | None = None
    """How to read alignments off the attention; None for the default."""
    ensemble: Sequence[Path] = ()
    to: str | None = None
    group: bool = False
    reverse_model: Path | None = None
    model: str = "the model"
    """What it is called in messages."""


class Task(ABC):
    """Everything the package needs to know about one task: from settings and data to serving and export."""

    entry: ClassVar[TaskEntry]

    # -- settings -----------------------------------------------------------------------------------------------------

    metrics: ClassVar[tuple[str, ...]]
    """Values of `training.metric` besides `loss`: the scores that can select the best model."""
    unread: ClassVar[tuple[str, ...]] = ()
    """Training settings that the loss of this task ignores."""
    planned: ClassVar[bool] = False
    """Whether `regard train` chooses unset settings from the corpus (its plan)."""
    compares_losses: ClassVar[bool] = True
    """Whether training and validation loss are the same quantity, so that a report may compare them."""

    def check(self, config: Config) -> None:  # noqa: B027 (most have nothing to refuse)
        """Raise a ConfigError for settings and data that do not go together, before any work is done."""

    def fitted(self, config: Config) -> Config:
        """Return the settings with the model fitted to its data, such as to the colour channels of the pictures."""
        return config

    def records_steps(self, model: ModelConfig) -> bool:
        """Return whether batches may be padded to a few fixed shapes, so that steps can be recorded as CUDA graphs."""
        return True

    # -- the model ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def assemble(self, config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
        """Build the model, without initialising it; the sizes are those of the source and target vocabulary."""

    @abstractmethod
    def draw(self, model: nn.Module) -> None:
        """Initialise the weights, drawing from torch's default generator."""

    @abstractmethod
    def read_vocabulary(self, folder: Path) -> Any:
        """Load the vocabulary of a model folder: tokenizers, class labels, or question words and answers."""

    @abstractmethod
    def sizes(self, vocabulary: Any) -> tuple[int, int]:
        """Return the sizes of the source and target vocabulary."""

    # -- training -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def open_sources(self, config: Config, resumed: bool) -> Any:
        """Open the corpora, so that problems with them show at once.

        Returns a dataclass with a field `vocabulary`: the one to use, or None to learn it.
        """

    @abstractmethod
    def open_data(
        self, config: Config, folder: Path, sources: Any, say: Say, few_shapes: bool
    ) -> tuple[Any, TrainingData]:
        """Build vocabulary and data caches in a model folder; a resumed run reuses those it built when it started."""

    def rehearsal(self, model: Any, batch: Any, config: Config) -> tuple[Objective, Any]:
        """Return the loss and the batch of a step that the plan times, from a batch of made-up text (`Batch`)."""
        raise NotImplementedError

    def finish(self, folder: Path) -> None:  # noqa: B027 (most have nothing to add)
        """Add files to a trained model's folder that are computed from its training data."""

    def try_it(self, config: Config, folder: Path) -> str:
        """Return a message with a command to try the trained model."""
        return f"Try it with: regard {self.entry.command} {folder} IMAGE"

    # -- use ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def load(self, folder: Path, device: str) -> Any:
        """Load a model folder for inference."""

    scoring_options: ClassVar[frozenset[str]] = frozenset()
    """Task-specific options of `regard evaluate` that this task supports, as typed (`--beam`)."""

    @abstractmethod
    def evaluate(self, reader: Any, asked: EvaluationRequest) -> Report:
        """Score on a corpus what `load` has opened."""

    # -- comparison: what `regard compare` scores and shows (see regard.compare.scoring) -------------------------------

    @abstractmethod
    def open_test(self, test: Any, config: Config) -> Any:
        """Open the test corpus described by a `HeldOut`; the result has a `name` and an `identity()`."""

    @abstractmethod
    def subject(self, test: Any, config: Config, terms: Any) -> Any:
        """Return the references of the test corpus and the examples to show (a `Subject`)."""

    @abstractmethod
    def compare(self, folder: Path, job: Any, options: DecodingConfig) -> Any:
        """Score a variant's model; returns a `regard.compare.scoring.TaskScores`."""

    # -- serving ------------------------------------------------------------------------------------------------------

    served_as: ClassVar[str]
    """The task's name in `/api/models`."""
    path: ClassVar[str]
    """The endpoint: `/api/{path}`."""
    does: ClassVar[str]
    """What a model does, for messages: "translates texts"."""

    def check_served(self, folder: Path, config: Config) -> None:  # noqa: B027 (most can be served)
        """Raise a ModelError for a model that cannot be served."""

    def about(self, reader: Any, config: Config) -> Mapping[str, Any]:
        """Return further entries for `/api/models`: `tags`, `examples` to try, whether `scenes` can be used."""
        return {}

    @abstractmethod
    def routes(self, models: Sequence[Any], queue: Any, limits: Any, uploads: Any) -> Any:
        """Return the FastAPI router of this task's endpoint; None where another task's router serves it."""

    # -- attention and export -----------------------------------------------------------------------------------------

    attend_options: ClassVar[frozenset[str]] = frozenset()
    """Task-specific options of `regard attend` that this task supports, as typed (`--target`)."""

    @abstractmethod
    def attend(self, folder: Path, asked: Any) -> None:
        """Print and save a model's attention; `asked` is a `regard.cli.attention_output.AttendRequest`."""

    @abstractmethod
    def export(self, folder: Path, config: Config, out: Path) -> Any:
        """Return what `regard export` turns into ONNX graphs (`regard.export.export_model.Exportable`)."""


def open_task(entry: TaskEntry) -> Task:
    """Import a task's object."""
    task: Task = entry.part("task").TASK
    return task


def task_of(model: ModelConfig) -> Task:
    """Return the task of a model."""
    return open_task(entry_of(model))


def build(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Build the model that a configuration describes and initialise its weights."""
    task = task_of(config)
    model = task.assemble(config, source_size, target_size)
    task.draw(model)
    return model


def build_empty(config: ModelConfig, source_size: int, target_size: int) -> nn.Module:
    """Build the model without initialising its weights, which would take most of the time, for loading a checkpoint."""
    with SkipInitialisation():
        return task_of(config).assemble(config, source_size, target_size)


def check_task(config: ModelConfig) -> None:
    """Raise a ConfigError for a model of an unknown task, or one that cannot copy as its settings ask."""
    entry_of(config)
    check_copying(config)


class Opened(NamedTuple):
    """A loaded model folder."""

    model: Any
    vocabulary: Any
    config: Config


def open_model(folder: Path, device: str, entry: TaskEntry) -> Opened:
    """Load a model folder of a given task; the error for another task names the command to use."""
    config = open_folder(folder)
    own = entry_of(config.model)
    if own != entry:
        raise ModelError(f"{folder} holds {own.what}: use regard {own.command}.")
    place, task = find_device(device), task_of(config.model)
    vocabulary = task.read_vocabulary(folder)
    # All random weights are overwritten, so leave the caller's generator as it was.
    with torch.random.fork_rng(devices=[]):
        model = build_and_load(folder, config.model, lambda: build_empty(config.model, *task.sizes(vocabulary)))
    return Opened(model.to(place).eval(), vocabulary, config)
