"""Starting from a trained model: its weights and its vocabulary, with a fresh optimizer and schedule.

The configuration names the folder (`started_from`). It is read once: the weights become the new run's first checkpoint,
of step 0, and the vocabulary is copied, so that the run can be resumed when the old folder is gone.

The new model must have the weights of the old one, each of the same shape. Other settings of it may change: dropout,
how a look is focused or how far it reaches, where these have no weights of their own; and how large images are, for
positions that were learned for one size are interpolated for the other.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from regard.config import Config, DataConfig, ModelConfig
from regard.config_io import differences
from regard.data.tagged_corpora import parse_entry
from regard.data.tokenizers import Tokenizers
from regard.errors import ConfigError, TrainingError
from regard.models.model_folder import build_and_load, open_folder, weights_of
from regard.shapes import Tensor
from regard.task import build_empty, task_of
from regard.vision.grid_positions import LearnedGrid


@dataclass(frozen=True)
class Start:
    """What a run starts with."""

    vocabulary: Any
    weights: dict[str, Tensor]
    """Of the model that is to be trained, all that gradients teach, and of the rest what the old one has."""


def configuration_of(folder: Path) -> Config:
    """Return a model's configuration to train on with; the corpora of its own training are left out."""
    config = open_folder(folder)
    return replace(config, data=_without_corpora(config.data), started_from=_absolute(folder))


def started_from(config: Config, folder: Path, resume: bool) -> Config:
    """Return a configuration that starts from a model folder."""
    if resume:
        raise TrainingError("--from starts a new run and --resume goes on with one: give one of them.")
    return replace(config, started_from=_absolute(folder))


def check_apart(config: Config, folder: Path, resume: bool) -> None:
    """Raise a TrainingError where a model would be replaced by what starts from it."""
    if config.started_from and not resume and Path(config.started_from).resolve() == folder.resolve():
        raise TrainingError(f"{folder} cannot start from itself: train into another folder, or go on with --resume.")


def read_start(config: Config) -> Start:
    """Read the model that a run starts from; raise where its weights or its vocabulary would not fit the settings."""
    folder = Path(config.started_from)
    old = open_folder(folder)
    task = task_of(old.model)
    vocabulary = task.read_vocabulary(folder)
    _check_tokenizer(config, old, folder)
    if isinstance(vocabulary, Tokenizers):
        _check_tags(config, vocabulary, folder)
    with torch.random.fork_rng(devices=[]):
        model = build_and_load(folder, old.model, lambda: build_empty(old.model, *task.sizes(vocabulary)))
    with torch.device("meta"):
        wanted = build_empty(config.model, *task.sizes(vocabulary))
    _resize(model, wanted)
    if _learned_shapes(model) != _learned_shapes(wanted):
        raise ConfigError(_another_model(config.model, old, folder))
    known = weights_of(wanted).keys()
    return Start(vocabulary, {name: tensor for name, tensor in weights_of(model).items() if name in known})


def _resize(model: nn.Module, wanted: nn.Module) -> None:
    """Lay the positions that a model has learned over the grid of another size of images."""
    parts = dict(wanted.named_modules())
    for name, part in model.named_modules():
        other = parts.get(name)
        if isinstance(part, LearnedGrid) and isinstance(other, LearnedGrid):
            part.resize((other.E_pos.shape[0], other.E_pos.shape[1]))


def _learned_shapes(model: nn.Module) -> dict[str, torch.Size]:
    """Return the shapes of what gradients teach, which must be the same in both models.

    The rest (the baseline of hard attention) only follows a training: who has none begins with the first value.
    """
    return {name: weight.shape for name, weight in model.named_parameters() if weight.requires_grad}


def _check_tokenizer(config: Config, old: Config, folder: Path) -> None:
    before = replace(old.tokenizer, sampling=config.tokenizer.sampling)  # no part of the vocabulary
    changed = differences(replace(Config(), tokenizer=before), replace(Config(), tokenizer=config.tokenizer))
    if changed:
        raise ConfigError(
            f"A run that starts from {folder} has its vocabulary, so these settings cannot change:\n{_listed(changed)}"
        )


def _check_tags(config: Config, tokenizers: Tokenizers, folder: Path) -> None:
    for entry in config.data.tagged:
        tag = parse_entry(entry).tag
        if tag not in tokenizers.tags:
            known = f"knows the tags {', '.join(tokenizers.tags)}" if tokenizers.tags else "knows no tags"
            raise ConfigError(f"data.tagged has the tag {tag!r}, but the vocabulary of {folder} {known}.")


def _another_model(model: ModelConfig, old: Config, folder: Path) -> str:
    changed = differences(replace(Config(), model=old.model), replace(Config(), model=model))
    return (
        f"The weights of {folder} do not fit these settings, of which at least one changes their shapes:\n"
        f"{_listed(changed)}\nLeave them as they were, or train anew without --from."
    )


def _listed(changed: list[str]) -> str:
    return "\n".join(f"  {line}" for line in changed)


def _without_corpora(data: DataConfig) -> DataConfig:
    return replace(data, train=(), valid=(), held_out=0, mixed=(), tagged=(), valid_tagged=())


def _absolute(folder: Path) -> str:
    """Name a folder so that it is found from anywhere."""
    return str(folder.absolute())
