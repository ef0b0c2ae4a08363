"""Training a demo's model, unless it is there already."""

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
"""Settings that change nothing in what was trained; training itself may raise the greatest length."""


def train_once(config: Config, model: Path, corpus: str, doing: str, say: Callable[[str], None]) -> None:
    """Train a model on an embedded corpus into a folder; go on with it, or leave it alone, where it is there.

    `doing` says what is about to happen. A folder with a model of something else is refused.
    """
    if (model / CONFIG).is_file():
        found = read_toml(model / CONFIG)
        wanted = settled(task_of(config.model).fitted(config), torch.device("cpu"), found)
        changed = [line for line in differences(found, wanted) if not line.startswith(SEARCH)]
        if not changed:
            say(f"Using {model}, which is there already (remove it to train anew).")
            if (model / STATE).is_dir() or not (model / WEIGHTS).is_file():
                train(config, model, resume=True, go_on="")
            return
        if found.preset != config.preset or not found.data.train[0].startswith(corpus):
            raise TrainingError(f"{model} holds a model that is not the demo's: give another place with --folder.")
    say(doing)
    train(config, model, overwrite=True, go_on="")
