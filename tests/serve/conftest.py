"""Folders of tiny untrained models, one for each task, and a client of a server of all of them."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from regard.config import AttentionConfig, Config, DataConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.config_io import override
from regard.data.class_labels import Labels
from regard.data.pictures import PictureQuestion
from regard.data.question_vocabulary import QuestionVocabulary
from regard.data.tokenizers import Tokenizers, Words
from regard.presets.vision import visions
from regard.serve.app import make_app
from regard.serve.served_models import open_models

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
LABELS = Labels(("boot", "<b>bag</b>", "coat"))
QUESTIONS = QuestionVocabulary.of(
    [[PictureQuestion("how many red cats are there", "two"), PictureQuestion("is there a cat", "yes")]]
)
TEXTS = ModelConfig(
    embedding=11,
    encoder=EncoderConfig(width=7),
    decoder=DecoderConfig(width=13, readout_width=5),
    attention=AttentionConfig(width=3),
)
SMALL = ("image.size=32", "image.width=16", "image.units=1")
WRITER = ("embedding=8", "decoder.width=8", "decoder.readout_width=8", "attention.width=8")


def vision(name: str, *changes: str) -> Config:
    config = override(visions[name](), [f"model.{change}" for change in (*SMALL, *changes)])
    return replace(config, data=DataConfig(train=("scenes:10",)))


@pytest.fixture(scope="session")
def folders(tmp_path_factory, make_folder):
    """A model folder for each task, by the task's name."""
    place, words = tmp_path_factory.mktemp("served"), Tokenizers(SOURCE, TARGET)
    language = replace(TEXTS, encoder=EncoderConfig("none"), attention=None, decoder=DecoderConfig("luong", width=12))
    configs = {
        "translate": (Config(model=TEXTS), words),
        "continue": (Config(model=language), Tokenizers(TARGET, TARGET)),
        "caption": (vision("xu2015-soft-small", *WRITER), words),
        "classify": (vision("hu2017-se-small", "image.reduction=2"), LABELS),
        "answer": (vision("anderson2017-small"), QUESTIONS),
        "detect": (vision("carion2020-small", "decoder.width=16"), LABELS),
    }
    return {name: make_folder(place / name, *parts) for name, parts in configs.items()}


@pytest.fixture(scope="session")
def models(folders):
    """All of them, opened."""
    return open_models(list(folders.values()))


@pytest.fixture(scope="session")
def client(models):
    """A client of all of them."""
    with TestClient(make_app(models), raise_server_exceptions=False) as client:
        yield client
