"""Folders of tiny untrained models, one for each task, and a client of a server of all of them."""

import threading
import time
from contextlib import contextmanager
from dataclasses import replace

import pytest
import uvicorn
from fastapi.testclient import TestClient

from regard.config import AttentionConfig, Config, DataConfig, DecoderConfig, EncoderConfig, ModelConfig
from regard.config_io import override
from regard.data.class_labels import Labels
from regard.data.pictures import PictureQuestion
from regard.data.question_vocabulary import QuestionVocabulary
from regard.data.tokenizers import Lines, Tokenizers, Words
from regard.presets import preset
from regard.presets.vision import visions
from regard.serve.app import make_app
from regard.serve.connections import ConnectionServer, limited_connection
from regard.serve.request_limits import Limits
from regard.serve.served_models import open_models
from regard.serve.server import open_socket

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
LABELS = Labels(("boot", "<b>bag</b>", "coat"))
READ = Words([*(f"{word}{end}" for word in ("the", "red", "dress", "is", "old", "a", "cat") for end in ("", ".", "!"))])
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


def text_classifier(name: str) -> Config:
    return override(preset(name), ["model.embedding=7", "model.encoder.width=5", "model.attention.width=3"])


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
        "classify-text": (
            text_classifier("zhou2016-small"),
            Tokenizers(READ, Lines(["very bad", "<b>"])),
        ),
        "classify-documents": (text_classifier("yang2016-small"), Tokenizers(READ, Lines(["very bad", "good"]))),
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


@contextmanager
def running(models, limits=None, **options):
    """A server in a thread, at a port of this machine: yield the app and the port."""
    limits, app = limits or Limits(), make_app(models, limits, **options)
    own = open_socket("127.0.0.1", 0)
    protocol = limited_connection(limits.connections)
    config = uvicorn.Config(app, http=protocol, ws="none", log_config=None, access_log=False)
    server = ConnectionServer(config, app.state, limits.idle)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [own]})
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield app, own.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        own.close()


@pytest.fixture(scope="session")
def run_server():
    """`running`, for tests that need real connections."""
    return running
