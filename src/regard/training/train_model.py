"""From a configuration to a trained model in a folder: `train` is all that the command line calls."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.allocator import keep_memory
from regard.atomic_files import write_atomically
from regard.config import Config
from regard.config_io import to_toml
from regard.distributed import World, current
from regard.errors import DisplayError, RegardError, TrainingError
from regard.models.model_folder import CONFIG, WEIGHTS, read_config
from regard.task import TrainingData, build, task_of
from regard.training import time_budget
from regard.training.checkpoint import Checkpoints, DamagedError, Name, read
from regard.training.copy_vocabulary import match_words
from regard.training.finetune import check_apart, read_start, started_from
from regard.training.launch import mark, unmark
from regard.training.progress import Reporter, Silent, duration, reporter_for
from regard.training.rank_consistency import check_same
from regard.training.resume import (
    CURVE,
    REPORT,
    TENSORBOARD,
    check_settings,
    drawn_in_few_shapes,
    find,
    locked,
    prepare,
    put_aside,
    replacing,
    undone_on_error,
)
from regard.training.setting_checks import check, device_of, settled
from regard.training.tensorboard import TensorBoard, check_tensorboard
from regard.training.trainer import INTERRUPTED, METRICS, STATE, Trainer, records_steps, seed_from
from regard.training.training_report import Diagnosis, diagnose
from regard.training.weight_averaging import set_weights
from regard.viz.metric_curves import read_metrics
from regard.viz.training_curve import training_curve


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    folder: Path
    end: str
    """Why: `epochs`, `steps`, `minutes`, `patience` (validation did not get better) or `interrupted`."""
    steps: int
    epochs: int
    """The epoch of the last step."""
    seconds: float
    """Over all resumed parts."""
    best_step: int | None
    """The step of the best validation; None before the first. model.safetensors has its weights, or a mean of them with
    those of others where `training.average` says so."""
    best_score: float | None
    """Its score: what `training.metric` names, or the negative loss."""


def train(
    config: Config,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    start_from: Path | None = None,
    reporter: Reporter | None = None,
    tensorboard: bool = False,
    go_on: str = "Go on with --resume.",
    began: float | None = None,
    plan: Sequence[str] = (),
) -> Result:
    """Train the model that a configuration describes into a folder, or go on with the run that is there.

    With `resume`, the run ends as if it had never been interrupted: on a CPU bit for bit. `overwrite` replaces a run.
    `start_from` is a model folder whose weights and vocabulary a new run starts with (`regard.training.finetune`).
    The learning curve is drawn at the end (curve.svg). `go_on` is what a person who stops the run is
    told to do; where it is empty, nobody is told what to try next either. `training.minutes` are counted from `began`
    (by `regard.training.time_budget.now`), or else from now. The lines of a `plan` are told before anything is learnt.

    Where `regard.distributed.joined` has met other processes, each of them calls this with the same arguments. The
    first one writes and reports; the others need to see the folder.
    """
    began = time_budget.now() if began is None else began
    world = current()
    check_same(world, config, start_from)
    existed = folder.exists()

    def prepared() -> Config:
        ours = config if start_from is None else started_from(config, start_from, resume)
        device = check(ours, resume)
        ours = task_of(ours.model).fitted(ours)
        check_apart(ours, folder, resume)
        if tensorboard:
            check_tensorboard()
        prepare(folder, resume=resume, overwrite=overwrite)
        return settled(ours, device, read_config(folder) if resume else None)

    config = world.lead(prepared)
    device = device_of(config)
    told = Silent() if not world.first else reporter_for() if reporter is None else reporter
    keep_memory()
    try:
        with torch.random.fork_rng([device] if device.type == "cuda" else []), _closing(told):
            if not world.first:
                return _run(_follow(world, config, folder, device), resume, tensorboard, go_on)
            with locked(folder):
                with replacing(folder) if resume or overwrite else undone_on_error(folder, existed):
                    trainer = _lead(world, lambda: _set_up(config, folder, device, resume, told, plan))
                    trainer.began = began
                return _run(trainer, resume, tensorboard, go_on)
    except OSError as error:
        saved = Checkpoints(folder / STATE).names()
        kept = "What was saved before is kept: go on from it with --resume." if saved else "Nothing was saved before."
        raise TrainingError(f"Training stopped: {error.strerror} ({error.filename or folder}). {kept}") from error


class _Opened(NamedTuple):
    """What the first process tells the others about the run that it has opened."""

    config: Config
    checkpoint: Name | None
    fingerprint: str
    few_shapes: bool


def _lead(world: World, set_up: Callable[[], Trainer]) -> Trainer:
    """Set up training in the first process, then let the others do it from what is in the folder."""
    trainer: Trainer | None = None

    def opened() -> _Opened:
        nonlocal trainer
        trainer = set_up()
        name = trainer.saved.name if trainer.saved else None
        return _Opened(trainer.config, name, trainer.data.fingerprint, trainer.place.few_shapes)

    world.lead(opened)
    world.together(lambda: None)  # did the others succeed?
    assert trainer is not None
    return trainer


def _follow(world: World, config: Config, folder: Path, device: torch.device) -> Trainer:
    """Set up training from what the first process has put into the folder, as a run that is resumed does."""
    ours: _Opened = world.lead(_unreachable)
    return world.together(lambda: _open_too(ours, folder, device))


def _unreachable() -> Any:
    raise AssertionError


def _open_too(ours: _Opened, folder: Path, device: torch.device) -> Trainer:
    config, task = ours.config, task_of(ours.config.model)
    try:
        if not (folder / CONFIG).is_file():
            raise TrainingError(f"there is no {folder / CONFIG}.")
        sources = task.open_sources(config, resumed=True)
        vocabulary, data = task.open_data(config, folder, sources, lambda line: None, ours.few_shapes)
        trainer = Trainer(config, folder, _model(config, vocabulary, device), data, Silent())
        if ours.checkpoint is not None:
            trainer.load(read(folder / STATE / str(ours.checkpoint), ours.checkpoint))
    except (DamagedError, OSError, RegardError) as error:
        raise TrainingError(
            f"{error} Every process reads what the first one has written to --out: it has to be in a file system that "
            "all machines share, and a validation corpus has to be on each of them."
        ) from error
    if data.fingerprint != ours.fingerprint:
        raise TrainingError(
            "the corpus is not that of process 0: put the same files on all machines, and --out into a file system "
            "that they share."
        )
    trainer.place.few_shapes = ours.few_shapes
    return trainer


def _set_up(
    config: Config, folder: Path, device: torch.device, resume: bool, reporter: Reporter, plan: Sequence[str]
) -> Trainer:
    """Make all that training needs, or take it from where the run was."""
    saved, damaged = find(folder) if resume else (None, [])
    for line in damaged:
        reporter.message(f"Going back to the checkpoint before: {line}")
    changed = check_settings(saved, config, folder) if saved else []
    for line in changed:
        reporter.message(f"Going on with {line}")
    if resume and saved is None and (folder / WEIGHTS).exists():
        raise TrainingError(
            f"{folder} cannot be resumed: it holds a model, but the checkpoints in its {STATE}/ are gone. "
            "Train into another folder, or replace it with --overwrite."
        )
    start = read_start(config) if config.started_from and saved is None else None
    task = task_of(config.model)
    sources = task.open_sources(config, resumed=saved is not None)
    if start is not None:
        sources = replace(sources, vocabulary=start.vocabulary)
    if saved is None and (folder / CONFIG).exists():
        put_aside(folder)  # what is to be overwritten, or was killed before its first checkpoint
    write_atomically(folder / CONFIG, to_toml(config).encode())
    mark(folder)
    few_shapes = drawn_in_few_shapes(saved, device) if saved else records_steps(config, device)
    for line in plan:
        reporter.message(line)
    vocabulary, data = task.open_data(config, folder, sources, reporter.message, few_shapes)
    if data.decoding != config.decoding:
        config = replace(config, decoding=data.decoding)
        write_atomically(folder / CONFIG, to_toml(config).encode())
    model = _model(config, vocabulary, device)
    if start is not None:
        set_weights(model, start.weights)
    trainer = Trainer(config, folder, model, data, reporter)
    trainer.check()
    if saved is not None:
        trainer.load(saved)
        _check_fingerprint(trainer, data, folder)
        trainer.settle()
    trainer.place.few_shapes = few_shapes
    if start is not None:
        trainer.save_start()
    return trainer


def _run(trainer: Trainer, resume: bool, tensorboard: bool, go_on: str) -> Result:
    reporter, folder, first = trainer.reporter, trainer.folder, trainer.world.first
    ended = trainer.end() if trainer.saved and trainer.saved.name.scheduled else None
    if ended is not None:
        reporter.message(f"Training already finished after {trainer.place.step:,} steps: there is nothing to resume.")
        if not first:
            return _result(trainer, ended)
        task_of(trainer.config.model).finish(folder)
        _draw_curve(folder)
        _report(trainer, ended)
        return _result(trainer, ended)
    if not first:
        return _result(trainer, trainer.run())
    (folder / REPORT).unlink(missing_ok=True)  # of the part before
    reporter.message(_going_on(trainer) if resume else _setting_out(trainer))
    with contextlib.ExitStack() as stack:
        if tensorboard:
            trainer.reporter = TensorBoard(folder / TENSORBOARD, reporter, trainer.place.step + 1)
            stack.callback(trainer.reporter.close)
        result = _result(trainer, trainer.run())
    unmark(folder)
    if result.end != INTERRUPTED:
        task_of(trainer.config.model).finish(folder)
    _farewell(result, reporter, go_on)
    _draw_curve(folder)
    if result.end != INTERRUPTED:
        found = _report(trainer, result.end)
        reporter.message(str(found) if go_on else found.reached)
    return result


def _model(config: Config, vocabulary: Any, device: torch.device) -> nn.Module:
    seed_from(torch.device("cpu"), config.seed, "model")
    model = build(config.model, *task_of(config.model).sizes(vocabulary))
    match_words(model, vocabulary)
    # A model that is cut up goes to its GPU part by part, when training begins.
    return model if config.training.shard else model.to(device)


def _check_fingerprint(trainer: Trainer, data: TrainingData, folder: Path) -> None:
    if trainer.place.fingerprint != data.fingerprint:
        raise TrainingError(
            f"{folder} cannot be resumed: the corpus is not the one it was started with. "
            "Put the old files back, or train into another folder."
        )


def _setting_out(trainer: Trainer) -> str:
    device = device_of(trainer.config)
    where = "the CPU" if device.type == "cpu" else torch.cuda.get_device_name(device)
    several = f", in {trainer.world.size} processes" if trainer.world.size > 1 else ""
    return f"Training on {where} in {trainer.settings.precision}{several}"


def _going_on(trainer: Trainer) -> str:
    if trainer.saved is None:
        return "There is no checkpoint yet: starting from the beginning."
    return f"Going on after step {trainer.place.step:,} (epoch {trainer.place.epoch})."


def _result(trainer: Trainer, end: str) -> Result:
    place, best = trainer.place, trainer.place.best
    return Result(
        folder=trainer.folder,
        end=end,
        steps=place.step,
        epochs=place.epoch,
        seconds=place.seconds,
        best_step=best.step if best else None,
        best_score=best.score if best else None,
    )


def _farewell(result: Result, reporter: Reporter, go_on: str) -> None:
    if result.end == INTERRUPTED:
        reporter.message(f"Stopped after step {result.steps:,} and saved. {go_on}".strip())
        return
    why = {
        "epochs": "all epochs done",
        "steps": "all steps done",
        "minutes": "the time is up",
        "patience": "validation no longer gets better",
    }
    steps = "1 step" if result.steps == 1 else f"{result.steps:,} steps"
    reporter.message(f"Finished after {steps} in {duration(result.seconds)}: {why[result.end]}.")


def _report(trainer: Trainer, end: str) -> Diagnosis:
    """Write down what was reached and what to try next."""
    metrics = trainer.folder / METRICS
    found = diagnose(read_metrics(metrics) if metrics.exists() else [], trainer.config, end)
    write_atomically(trainer.folder / REPORT, f"{found}\n".encode())
    return found


def _draw_curve(folder: Path) -> None:
    """Draw the learning curve where there is something to draw."""
    with contextlib.suppress(DisplayError):
        write_atomically(folder / CURVE, training_curve(read_metrics(folder / METRICS)).encode())


@contextlib.contextmanager
def _closing(reporter: Reporter) -> Iterator[None]:
    try:
        yield
    finally:
        reporter.close()
