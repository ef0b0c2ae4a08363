"""Train a demo's model, unless it exists already."""

from collections.abc import Callable
from pathlib import Path

import torch

from regard.config import Config
from regard.config_io import differences, read_toml
from regard.errors import TrainingError
from regard.models.model_folder import CONFIG, WEIGHTS
from regard.task import task_of
from regard.training.setting_checks import settled
from regard.training.train_model import train
from regard.training.trainer import STATE

SEARCH = "decoding."
"""Settings that do not affect training; training itself may raise the maximum length."""


def train_once(config: Config, model: Path, corpus: str, doing: str, say: Callable[[str], None]) -> None:
    """Train a model on an embedded corpus; reuse the one in the folder, or resume it if it is unfinished.

    `doing` is printed before training. Raises a TrainingError if the folder holds a model that is not the demo's.
    """
    if (model / CONFIG).is_file():
        found = read_toml(model / CONFIG)
        wanted = settled(task_of(config.model).fitted(config), torch.device("cpu"), found)
        changed = [line for line in differences(found, wanted) if not line.startswith(SEARCH)]
        if not changed:
            say(f"Using the trained model in {model} (delete it to train again).")
            if (model / STATE).is_dir() or not (model / WEIGHTS).is_file():
                train(config, model, resume=True, go_on="")
            return
        if found.preset != config.preset or not found.data.train[0].startswith(corpus):
            raise TrainingError(f"{model} holds a model that is not the demo's: give another folder with --folder.")
    say(doing)
    train(config, model, overwrite=True, go_on="")
