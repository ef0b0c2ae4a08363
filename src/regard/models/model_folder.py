"""Read a model folder's configuration and weights: nothing in it is code, and nothing in it is trusted."""

import contextlib
import dataclasses
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from regard.config import Config, ModelConfig
from regard.config_io import parse_toml
from regard.errors import ModelError, first_line
from regard.folder_files import member, parse_json, read_member, shortened

CONFIG = "config.toml"
WEIGHTS = "model.safetensors"
CACHE = "cache"
"""Subfolder of data that a run has prepared from its corpora."""
LARGEST_HEADER = 1 << 21
"""Bytes of the largest table of contents in a file of weights that is read."""
COUNTED = ("layers", "stages", "units", "depth")
"""Settings that say how many of something with weights a model has."""
REGISTERED = 8
"""A tied weight is registered more often than it is stored, since the one that it replaces was too."""

Model = TypeVar("Model", bound=nn.Module)


def open_folder(folder: Path) -> Config:
    """Read a model folder's configuration."""
    if folder.is_file():
        raise ModelError(f"{folder} is a file, not a model folder: give a folder made by regard train --out.")
    if not folder.is_dir():
        raise ModelError(f"There is no model folder {folder}: train a model with regard train … --out {folder}.")
    if not os.path.lexists(folder / CONFIG) or (folder / CONFIG).is_dir():
        raise ModelError(f"{folder} is not a model folder: it has no {CONFIG}.")
    return read_config(folder)


def read_config(folder: Path) -> Config:
    """Read the configuration in a model folder or in a checkpoint."""
    path = folder / CONFIG
    try:
        content = read_member(folder, CONFIG)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from None
    if not content.strip():
        raise ModelError(f"{path} is empty. Copy the model folder again, or train the model again.")
    return parse_toml(content, path)


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return the weights by name; a shared (tied) one appears once, under its first name."""
    return {name: parameter.detach() for name, parameter in module.named_parameters()}


def learned(module: nn.Module) -> int:
    """Count the trainable weights; some are only stored, such as the baseline of hard attention."""
    return sum(weight.numel() for weight in module.parameters() if weight.requires_grad)


class Contents(NamedTuple):
    """What a file of weights has, by its header."""

    tensors: int
    elements: int


def build_and_load(folder: Path, config: ModelConfig, build: Callable[[], Model]) -> Model:
    """Build a folder's model and load its weights; settings that ask for more weights than it has are refused."""
    path = folder / WEIGHTS
    with reading(path):
        stored = contents(member(folder, WEIGHTS))
    _check_counts(config, stored, folder)
    with _at_most(stored, path):
        model = build()
    load_weights(path, model)
    return model


def _check_counts(config: object, stored: Contents, folder: Path) -> None:
    """Refuse more layers than there are weights before lists of as many are made: each layer has a weight or more."""
    for setting in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, setting.name)
        if dataclasses.is_dataclass(value):
            _check_counts(value, stored, folder)
        elif setting.name in COUNTED and value > stored.tensors:
            raise _too_large(folder)


def _too_large(folder: Path) -> ModelError:
    return ModelError(f"{folder / CONFIG} describes a larger model than {WEIGHTS} has weights for.")


def contents(path: Path) -> Contents:
    """Count what a file of safetensors says that it holds, before any of it is loaded; ValueError if it is damaged."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            raise ValueError("it is cut short")
        if length > LARGEST_HEADER:
            raise ValueError(f"its header has {length:,} bytes")
        header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise ValueError("its header is no table")
    return Contents(len(header), size // 2)  # no kind of number that we load takes less than two bytes


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn what can be wrong with a file of weights into a ModelError that names it."""
    try:
        yield
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}.") from None
    except (SafetensorError, ValueError) as error:
        raise ModelError(f"{path} is damaged: {first_line(error)}.") from None


@contextlib.contextmanager
def _at_most(stored: Contents, path: Path) -> Iterator[None]:
    """Stop the building of a model that has more weights than a file could fill."""
    tensors = elements = 0
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal tensors, elements
        if parameter is None or threading.get_ident() != thread:
            return
        tensors, elements = tensors + 1, elements + parameter.numel()
        if tensors > REGISTERED * (stored.tensors + 1) or elements > REGISTERED * (stored.elements + 1):
            raise _too_large(path.parent)

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    except (ArithmeticError, AssertionError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ModelError(
            f"{path.parent / CONFIG} describes a model that cannot be built: {first_line(error)}."
        ) from error
    finally:
        hook.remove()


def load_weights(path: Path, module: nn.Module) -> None:
    """Load weights into a module; names, shapes and types must match exactly, and all numbers be finite."""
    with reading(path):
        place = member(path.parent, path.name)
        contents(place)
        stored = load_file(place)
    own = weights_of(module)
    wrong = sorted(own.keys() ^ stored.keys()) or sorted(n for n in own if own[n].shape != stored[n].shape)
    if wrong:
        raise ModelError(
            f"{path} holds the weights of another model: {shortened(wrong[0])} does not match its {CONFIG}."
        )
    with torch.no_grad():
        for name, tensor in own.items():
            if stored[name].dtype != tensor.dtype:
                kind = str(stored[name].dtype).removeprefix("torch.")
                raise ModelError(f"{path} has {name!r} as {kind}, not {str(tensor.dtype).removeprefix('torch.')}.")
            if tensor.numel() and not bool(torch.stack(stored[name].aminmax()).isfinite().all()):
                raise ModelError(f"{path} has numbers in {name!r} that are not finite: the model cannot be used.")
            tensor.copy_(stored[name])
