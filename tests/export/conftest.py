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
from regard.data.tokenizers import Lines, Tagged, Tokenizers, Words
from regard.presets import preset
from regard.presets.vision import visions

pytest.importorskip("onnxruntime", reason="pip install 'regard[export]'")
pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
LABELS = Labels(("boot", "bag", "coat"))
READ = Words([*(f"{word}{end}" for word in ("the", "red", "dress", "is", "old", "a", "cat") for end in ("", ".", "!"))])
CLASSES = Tokenizers(READ, Lines(["very bad", "good", "so so"]))
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


SPEECHLESS = ModelConfig(
    embedding=8,
    encoder=EncoderConfig(width=7, cell="lstm"),
    decoder=DecoderConfig("luong", width=7, cell="lstm", layers=1, input_feeding=False),
    attention=None,
)
CONTINUING = ModelConfig(
    embedding=8,
    positions="learned",
    encoder=EncoderConfig("none"),
    decoder=DecoderConfig("transformer", width=8, feed_forward=11, layers=2),
    attention=None,
    self_attention=replace(LOOKS, longest=12),
)


def windowed(reach: str) -> ModelConfig:
    return replace(WINDOWED, attention=AttentionConfig("general", reach, window=1))


def vision(name: str, *changes: str) -> Config:
    return override(visions[name](), [f"model.{change}" for change in (*SMALL, *changes)])


def text_classifier(name: str, *changes: str) -> Config:
    tiny = ("embedding=7", "encoder.width=5", "attention.width=3", *changes)
    return override(preset(name), [f"model.{change}" for change in tiny])


@pytest.fixture(scope="session")
def folders(tmp_path_factory, make_folder):
    """A model folder for each kind, by its name."""
    place, words = tmp_path_factory.mktemp("exported"), Tokenizers(SOURCE, TARGET)
    configs = {
        "translate": (Config(model=TEXTS), words),
        "local-m": (Config(model=windowed("local-m")), Tokenizers(Tagged(SOURCE, ["fr", "de"]), TARGET)),
        "copying": (Config(model=replace(TEXTS, copy=True)), Tokenizers(SOURCE, SOURCE)),
        "copying, local-p": (Config(model=replace(windowed("local-p"), copy=True)), words),
        "blind": (Config(model=SPEECHLESS), words),
        "continue": (Config(model=CONTINUING), Tokenizers(TARGET, TARGET)),
        "caption": (vision("xu2015-hard-small", *WRITER), Tokenizers(TARGET, TARGET)),
        "features": (vision("xu2015-soft-small", *WRITER, *FEATURES), Tokenizers(TARGET, TARGET)),
        "classify": (vision("dosovitskiy2020-vit-small", "image.patch=8", "image.layers=1"), LABELS),
        "ask": (vision("anderson2017-small", "encoder.width=8", "questions.fusion=8", *PATCHES), QUESTIONS),
        "classify-text": (text_classifier("zhou2016-small"), CLASSES),
        "classify-documents": (text_classifier("yang2016-small", "attention.heads=2"), CLASSES),
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
        _, command, files, *checked = json.loads(told.read_text())
        return Exported(told.with_suffix(""), command, tuple(files), *checked)

    return made
