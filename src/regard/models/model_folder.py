"""Read a model folder's configuration and weights."""

from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn

from regard.config import Config
from regard.config_io import read_toml
from regard.errors import ModelError

CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
CACHE = "cache"
"""Subfolder of data that a run has prepared from its corpora."""


def open_folder(folder: Path) -> Config:
    """Read a model folder's configuration."""
    if folder.is_file():
        raise ModelError(f"{folder} is a file, not a model folder: give a folder made by regard train --out.")
    if not folder.is_dir():
        raise ModelError(f"There is no model folder {folder}: train a model with regard train … --out {folder}.")
    if not (folder / CONFIG).is_file():
        raise ModelError(f"{folder} is not a model folder: it has no {CONFIG}.")
    config = read_toml(folder / CONFIG)
    if not (folder / CONFIG).read_bytes().strip():
        raise ModelError(f"{folder / CONFIG} is empty. Copy the model folder again, or train the model again.")
    return config


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights by name; a shared (tied) one appears once, under its first name."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def learned(module: nn.Module) -> int:
    """Count the trainable weights; some are only stored, such as the baseline of hard attention."""
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad)


def load_weights(path: Path, module: nn.Module) -> None:
    """Load weights into a module; names and shapes must match exactly."""
    try:
        with path.open("rb"):  # for a clear reason if the file cannot be read
            stored = load_file(path)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from None
    except SafetensorError as error:
        raise ModelError(f"{path} is damaged: {error}.") from None
    own = weights_of(module)
    wrong = sorted(own.keys() ^ stored.keys()) or sorted(n for n in own if own[n].shape != stored[n].shape)
    if wrong:
        raise ModelError(f"{path} holds the weights of another model: {wrong[0]!r} does not match its {CONFIG}.")
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(stored[name])
