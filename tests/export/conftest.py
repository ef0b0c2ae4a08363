"""Tiny untrained models of every kind, exported."""

import json
from dataclasses import replace

import jaxtyping
import pytest

from regard.config import AttentionConfig, Config, DecoderConfig, EncoderConfig, ModelConfig
from regard.config_io import override
from regard.data.class_labels import Labels
from regard.data.pictures import PictureQuestion
from regard.data.question_vocabulary import QuestionVocabulary
from regard.data.tokenizers import Tokenizers, Words
from regard.presets.vision import visions

pytest.importorskip("onnxruntime", reason="pip install 'regard[export]'")
pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
LABELS = Labels(("boot", "bag", "coat"))
QUESTIONS = QuestionVocabulary.of(
    [[PictureQuestion("how many red cats are there", "two"), PictureQuestion("is there a cat", "yes")]]
)
LOOKS = AttentionConfig(score="scaled-dot", heads=2, project=True)
TEXTS = ModelConfig(
    embedding=8,
    positions="rotary",
    reverse_source=True,
    encoder=EncoderConfig(width=7, cell="lstm", bidirectional=True),
    decoder=DecoderConfig("transformer", width=8, feed_forward=11, layers=1),
    attention=LOOKS,
    self_attention=LOOKS,
)
WINDOWED = ModelConfig(
    embedding=8,
    encoder=EncoderConfig(width=7, cell="lstm"),
    decoder=DecoderConfig("luong", width=7, cell="lstm", layers=1),
)
SMALL = ("image.size=16", "image.width=16", "image.units=1", "image.stages=2", "image.block=none", "image.within=false")
PATCHES = ("image.kind=patches", "image.patch=4", "image.layers=0")
WRITER = (*PATCHES, "embedding=8", "decoder.width=8", "decoder.readout_width=8", "attention.width=8")
FEATURES = ("image.kind=regions", "image.size=2", "image.channels=5")


def vision(name: str, *changes: str) -> Config:
    return override(visions[name](), [f"model.{change}" for change in (*SMALL, *changes)])


@pytest.fixture(scope="session")
def folders(tmp_path_factory, make_folder):
    """A model folder for each kind, by its name."""
    place, words = tmp_path_factory.mktemp("exported"), Tokenizers(SOURCE, TARGET)
    configs = {
        "translate": (Config(model=TEXTS), words),
        **{
            reach: (Config(model=replace(WINDOWED, attention=AttentionConfig("general", reach, window=1))), words)
            for reach in ("local-m", "local-p")
        },
        "copying": (Config(model=replace(TEXTS, copy=True)), Tokenizers(SOURCE, SOURCE)),
        "copying-gru": (Config(model=replace(WINDOWED, copy=True)), words),
        "caption": (vision("xu2015-hard-small", *WRITER), Tokenizers(TARGET, TARGET)),
        "features": (vision("xu2015-soft-small", *WRITER, *FEATURES), Tokenizers(TARGET, TARGET)),
        "classify": (vision("dosovitskiy2020-vit-small", "image.patch=8", "image.layers=1"), LABELS),
        "ask": (vision("anderson2017-small", "encoder.width=8", "questions.fusion=8", *PATCHES), QUESTIONS),
        "detect": (vision("carion2020-small", "decoder.width=16", "decoder.layers=1", "image.layers=0"), LABELS),
    }
    return {name: make_folder(place / name, *parts) for name, parts in configs.items()}


@pytest.fixture(scope="session")
def export():
    """Export a model without checks of shapes, which would make torch take the sizes of examples for the only ones."""
    from regard.export.export_model import export_model

    def run(*args, **settings):
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            return export_model(*args, **settings)
        finally:
            jaxtyping.config.update("jaxtyping_disable", False)

    return run


@pytest.fixture(scope="session")
def exports(folders, export, once):
    """The folders as folders of ONNX files, each made when it is asked for."""
    from regard.export.export_model import Exported

    def made(name):
        def make(folder):
            exported = export(folders[name], folder)
            folder.with_suffix(".json").write_text(json.dumps(exported._replace(folder=str(folder))))

        told = once(f"{name}-onnx", make).with_suffix(".json")
        command, files, difference = json.loads(told.read_text())[1:]
        return Exported(told.with_suffix(""), command, tuple(files), difference)

    return made
