"""Load model folders for decoding."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from regard.config import Config, DecodingConfig
from regard.config_io import differences
from regard.data.tokenizers import Tokenizers
from regard.decoding.ensemble import Ensemble
from regard.decoding.vocabulary_shortlist import Shortlist
from regard.errors import ConfigError, ModelError
from regard.models.build import build_empty
from regard.models.model_folder import build_and_load, open_folder
from regard.models.seq2seq import Seq2Seq
from regard.task_table import entry_of

NOTHING = "none"
"""The encoder of a language model."""
TRANSLATE = "translate"
"""The command for models that generate text, from text or from nothing."""


class Opened(NamedTuple):
    """The contents of one model folder, or of several for an ensemble."""

    model: Seq2Seq | Ensemble
    tokenizers: Tokenizers
    options: DecodingConfig
    """Those of the first."""
    longest: int
    """Maximum length, in tokens, of the texts that all of them were trained on."""
    shortlist: Shortlist | None
    """The first one's shortlist."""


def open_folders(folders: Sequence[Path], device: str) -> Opened:
    """Load one model folder, or several as an ensemble."""
    if not folders:
        raise ModelError("There is no model to load: name at least one model folder.")
    configs = [open_folder(folder) for folder in folders]
    for folder, config in zip(folders, configs, strict=True):
        entry = entry_of(config.model)
        if entry.command != TRANSLATE:
            raise ModelError(f"{folder} holds {entry.what}: use regard {entry.command}.")
    tokenizers = [Tokenizers.load(folder) for folder in folders]
    _check_together(folders, configs, tokenizers)
    place = find_device(device)
    models = [_open(folder, config, tokenizers[0], place) for folder, config in zip(folders, configs, strict=True)]
    model = models[0] if len(models) == 1 else Ensemble(models).eval()
    source_size, target_size = tokenizers[0].source.size, tokenizers[0].target.size
    shortlist = Shortlist.load(folders[0], source_size, target_size)
    longest = min(config.data.max_length for config in configs)
    return Opened(model, tokenizers[0], configs[0].decoding, longest, shortlist)


def _check_together(folders: Sequence[Path], configs: Sequence[Config], tokenizers: Sequence[Tokenizers]) -> None:
    """Raise a ModelError for a model that cannot form an ensemble with the first."""
    for folder, config, own in zip(folders, configs, tokenizers, strict=True):
        if own.fingerprint != tokenizers[0].fingerprint:
            found = differences(Config(tokenizer=configs[0].tokenizer), Config(tokenizer=config.tokenizer))
            how = f" ({'; '.join(found)})" if found else ""
            raise ModelError(
                f"{folders[0]} and {folder} cannot form an ensemble: it needs the same vocabularies, and theirs "
                f"differ{how}. Train both on the same data with the same tokenizer settings."
            )
        if (config.model.encoder.kind == NOTHING) != (configs[0].model.encoder.kind == NOTHING):
            raise ModelError(
                f"{folders[0]} and {folder} cannot form an ensemble: "
                "one of them is a language model, which has no source."
            )


def _open(folder: Path, config: Config, tokenizers: Tokenizers, device: torch.device) -> Seq2Seq:
    # The random initial weights are overwritten, so the caller's generator must not advance.
    with torch.random.fork_rng(devices=[]):
        model = build_and_load(
            folder, config.model, lambda: build_empty(config.model, tokenizers.source.size, tokenizers.target.size)
        )
    return model.to(device).eval()


def find_device(name: str) -> torch.device:
    """Return the device of this name, if it exists; `auto` is the GPU if there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):
        raise ConfigError(f"There is no device {name!r}: use auto, cpu or cuda.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"The device {name!r} needs a GPU that PyTorch can use, but there is none: use cpu.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ConfigError(f"There is no device {name!r}: this machine has {torch.cuda.device_count()}, counted from 0.")
    return device
