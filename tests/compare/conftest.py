"""Variants small enough to be trained in a moment, all of it through `compare`."""

import contextlib
from dataclasses import replace
from unittest.mock import patch

import pytest

from regard.compare import Terms, Variant, compare, report
from regard.config import (
    AttentionConfig,
    Config,
    DataConfig,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    ModelConfig,
    TokenizerConfig,
    TrainingConfig,
)
from regard.training import train_model
from regard.training.progress import Silent

TINY = Config(
    seed=7,
    data=DataConfig(train=("reverse:60",), valid=("reverse:valid:4",)),
    tokenizer=TokenizerConfig(kind="words"),
    model=ModelConfig(
        embedding=5,
        encoder=EncoderConfig(width=7),
        decoder=DecoderConfig(width=7, readout_width=5),
        attention=AttentionConfig(width=3),
    ),
    training=TrainingConfig(
        batch_tokens=200, steps=6, epochs=1000, validate_every=3, patience=0, log_every=2, device="cpu"
    ),
    decoding=DecodingConfig(beam=2, max_length=5),
)
TERMS = Terms(test=("reverse:12",), sentences=("na ba ti", "so di"))


def variant(name, **training):
    return Variant(name, replace(TINY, training=replace(TINY.training, **training)))


def plain(name):
    return Variant(name, replace(TINY, model=replace(TINY.model, attention=None)))


class Listener(Silent):
    """Remembers what it is told, and does something after a given step of a given training."""

    def __init__(self, at=None, action=None):
        self.messages, self.steps, self._at, self._action = [], 0, at, action

    def message(self, text):
        self.messages.append(text)

    def step(self, progress):
        self.steps += 1
        if self.steps == self._at:
            self._action()


class Makers:
    """What tests make comparisons of: fixtures cannot be imported."""

    config, terms = TINY, TERMS
    variant, plain = staticmethod(variant), staticmethod(plain)
    listener = Listener

    @staticmethod
    def run(folder, *variants, terms=TERMS, pictures=False, **options):
        """Compare in this process, without pictures (they take longer than all the rest); also return what was said."""
        said = []
        chosen = {"jobs": 0, "say": said.append, "reporter": Silent(), **options}
        with contextlib.ExitStack() as stack:
            stack.enter_context(patch.object(train_model, "_draw_curve", lambda folder: None))
            if not pictures:
                stack.enter_context(patch.object(report._Pictures, "draw", lambda *_: False))
            return compare(variants, folder, terms, **chosen), said


@pytest.fixture(scope="session")
def make():
    return Makers()


@pytest.fixture(scope="session")
def made(make, tmp_path_factory):
    """Two variants, compared: with attention and without. Not to be changed."""
    folder = tmp_path_factory.mktemp("comparison") / "out"
    variants = make.variant("look"), make.plain("blind")
    found, _ = make.run(folder, *variants, pictures=True, command="regard compare --presets …")
    return found
