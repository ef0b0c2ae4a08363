"""A run small enough to be made hundreds of times: 30 words, 7 units, a few steps, all of it through `train`."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from regard.config import (
    AttentionConfig,
    Config,
    DataConfig,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ModelConfig,
    TrainingConfig,
)
from regard.data.batching import Batch
from regard.models.build import build_model
from regard.task import TrainingData
from regard.tasks.text_sources import Sources
from regard.tasks.translation.task import Translation
from regard.training import train_model
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import batch_loss
from regard.training.progress import UNITS, Silent
from regard.training.trainer import seed_from

WORDS = 30
TIMINGS = ("seconds", *(f"{unit}_per_second" for unit in ("steps", *UNITS)))

MODEL = ModelConfig(
    embedding=5,
    dropout=0.3,
    encoder=EncoderConfig(width=7, bidirectional=False),
    decoder=DecoderConfig(width=7, readout="tanh", readout_width=5),
    attention=AttentionConfig(width=3),
)

LOOKING = replace(MODEL, attention=replace(MODEL.attention, coverage="see2017"))
"""The same with coverage."""

HARD = replace(MODEL, attention=replace(MODEL.attention, focus="hard"))
"""The same with attention that is sampled."""

PLAIN = replace(MODEL, attention=None)
"""The same without attention, which takes half the time."""


def settings(model=MODEL, **training) -> Config:
    """Three epochs of 5 batches, two to a step: 9 steps, the last one of every epoch smaller."""
    chosen = {"epochs": 3, "accumulate": 2, "log_every": 2, "validate_every": 2, "device": "cpu", "learning_rate": 0.01}
    return Config(
        seed=7, data=DataConfig(train=("tiny",)), model=model, training=TrainingConfig(**{**chosen, **training})
    )


def batch(rows) -> Batch:
    """Make sentences that depend on the rows alone."""
    random = np.random.default_rng([11, *map(int, rows)])
    source = torch.from_numpy(random.integers(4, WORDS, (len(rows), 5)))
    target = torch.from_numpy(random.integers(4, WORDS, (len(rows), 3)))
    # Every other pair is aligned: its first target token with its first two source tokens.
    source_mask = torch.arange(5) < torch.from_numpy(random.integers(2, 6, (len(rows), 1)))
    target_mask = torch.arange(3) < torch.from_numpy(random.integers(1, 4, (len(rows), 1)))
    first = torch.full_like(target[:, :1], 2)
    return Batch(
        source * source_mask,
        source_mask,
        torch.cat([first, target[:, :-1]], dim=1) * target_mask,
        target * target_mask,
        target_mask,
        np.asarray(rows),
        torch.tensor([(row, 0, s) for row in range(0, len(rows), 2) for s in range(2)]),
    )


def order(epoch):
    shuffled = np.random.default_rng([5, epoch]).permutation(15)
    return [shuffled[i : i + 3].astype(np.int64) for i in range(0, 15, 3)]


def validate(model, check):
    check()
    held_out = batch(range(100, 104))
    nll = float(batch_loss(model, held_out).nll / held_out.target_mask.sum())
    # A made-up second score that goes up and down, so that the best is not always the last.
    return {"valid_loss": nll, "perplexity": float(np.exp(nll)), "bleu": float(nll * 1e4 % 10), "signature": "made up"}


DATA = TrainingData(order, batch, validate, "a fingerprint", DecodingConfig(), SequenceObjective)


def tiny_model(config, tokenizers, device):
    seed_from(device, config.seed, "model")
    return build_model(config.model, WORDS, WORDS)


def open_data_with(monkeypatch, opened):
    """Let translators be trained on what this function returns."""
    monkeypatch.setattr(Translation, "open_data", lambda _, *given: opened(*given))


def install(monkeypatch, data=DATA):
    """Let `train` use the tiny corpus and model."""
    monkeypatch.setattr(Translation, "open_sources", lambda _, config, resumed: Sources(None, None, ()))
    open_data_with(monkeypatch, lambda config, *_: (None, replace(data, decoding=config.decoding)))
    monkeypatch.setattr(train_model, "_model", tiny_model)
    monkeypatch.setattr(train_model, "_draw_curve", lambda folder: None)


class Listener(Silent):
    """Remembers what it is told, and does something after a given step."""

    def __init__(self, at=None, action=None):
        self.messages, self.records, self.steps = [], [], 0
        self._at, self._action = at, action

    def message(self, text):
        self.messages.append(text)

    def logged(self, record):
        self.records.append(record)

    def step(self, progress):
        self.steps += 1
        if progress.step == self._at:
            self._action()


class Killed(BaseException):
    """Stands for kill -9: nothing in the package may catch it."""


def killed():
    raise Killed


def train(config, folder, **options):
    return train_model.train(config, Path(folder), **{"reporter": Silent(), **options})


def contents(folder):
    """Return everything in a folder by name, with times left out; nothing may be left half written or half removed."""
    found = {}
    for path in sorted(Path(folder).rglob("*")):
        assert path.suffix not in (".writing", ".removing")
        name = str(path.relative_to(folder))
        if path.name == "metrics.jsonl":
            found[name] = [without_timings(json.loads(line)) for line in path.read_text().splitlines()]
        elif path.name == "place.json":
            found[name] = without_timings(json.loads(path.read_text()) | {"digest": "of all, times too"})
        elif path.is_file():
            found[name] = path.read_bytes()
    return found


def without_timings(value):
    if isinstance(value, dict):
        return {key: without_timings(inner) for key, inner in value.items() if key not in TIMINGS}
    return value


def changed(config, **training) -> Config:
    return replace(config, training=replace(config.training, **training))
