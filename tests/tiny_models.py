"""Folders of models that were never trained."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from regard.config import Config, DecodingConfig
from regard.config_io import to_toml
from regard.models.model_folder import weights_of
from regard.task import build, task_of


def write_folder(folder: Path, config: Config, vocabulary: Any) -> Path:
    """Write the folder of a model that knows nothing, and is sure of it; a writer comes to an end all the same."""
    folder.mkdir()
    config = replace(config, decoding=DecodingConfig(min_length=3, max_length=9))
    torch.manual_seed(3)
    model = build(config.model, *task_of(config.model).sizes(vocabulary))
    with torch.no_grad():
        for parameter in filter(lambda one: one.requires_grad, model.parameters()):
            parameter.mul_(3.0 if config.model.image is None else 1.5)
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    weights = {name: tensor.contiguous() for name, tensor in weights_of(model).items()}
    save_file(weights, folder / "model.safetensors")
    vocabulary.save(folder)
    return folder
