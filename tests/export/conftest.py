"""Tiny untrained models of every kind, exported."""

from dataclasses import replace
from pathlib import Path

import jaxtyping
import pytest
import torch
from safetensors.torch import save_file

from regard.config import AttentionConfig, Config, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.labels import Labels
from regard.data.pictures import Asked
from regard.data.questions import AskedWords
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding.folders import sizes_of
from regard.models.store import weights_of
from regard.presets.vision import visions
from regard.settings import override, to_toml
from regard.vision.build import build

pytest.importorskip("onnxruntime", reason="pip install 'regard[export]'")
pytest.importorskip("onnxscript", reason="pip install 'regard[export]'")

SOURCE = Words(["the", "red", "dress", "is", "old", "a", "cat"])
TARGET = Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "noir"])
LABELS = Labels(("boot", "bag", "coat"))
QUESTIONS = AskedWords.of([[Asked("how many red cats are there", "two"), Asked("is there a cat", "yes")]])
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
SMALL = ("image.size=16", "image.width=16", "image.units=1", "image.stages=2", "image.block=none", "image.within=false")
PATCHES = ("image.kind=patches", "image.patch=4", "image.layers=0")
WRITER = (*PATCHES, "embedding=8", "decoder.width=8", "decoder.readout_width=8", "attention.width=8")


def vision(name: str, *changes: str) -> Config:
    return override(visions[name](), [f"model.{change}" for change in (*SMALL, *changes)])


def write(folder: Path, config: Config, vocabulary: Tokenizers | Labels | AskedWords) -> Path:
    """Write the folder of a model that knows nothing, and is sure of it; a writer comes to an end all the same."""
    folder.mkdir()
    config = replace(config, decoding=DecodingConfig(min_length=3, max_length=9))
    torch.manual_seed(3)
    model = build(config.model, *sizes_of(vocabulary))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3.0 if config.model.image is None else 1.5)
    (folder / "config.toml").write_text(to_toml(config), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in weights_of(model).items()}, folder / "model.safetensors")
    vocabulary.save(folder)
    return folder


@pytest.fixture(scope="session")
def make_folder():
    """Write a model folder."""
    return write


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """A model folder for each kind, by its name."""
    place = tmp_path_factory.mktemp("exported")
    configs = {
        "translate": (Config(model=TEXTS), Tokenizers(SOURCE, TARGET)),
        "caption": (vision("xu2015-hard-small", *WRITER), Tokenizers(TARGET, TARGET)),
        "classify": (vision("dosovitskiy2020-vit-small", "image.patch=8", "image.layers=1"), LABELS),
        "ask": (vision("anderson2017-small", "encoder.width=8", "questions.fusion=8", *PATCHES), QUESTIONS),
        "detect": (vision("carion2020-small", "decoder.width=16", "decoder.layers=1", "image.layers=0"), LABELS),
    }
    return {name: write(place / name, *parts) for name, parts in configs.items()}


@pytest.fixture(scope="session")
def export():
    """Export a model without checks of shapes, which would make torch take the sizes of examples for the only ones."""
    from regard.export.model import export_model

    def run(*args, **settings):
        jaxtyping.config.update("jaxtyping_disable", True)
        try:
            return export_model(*args, **settings)
        finally:
            jaxtyping.config.update("jaxtyping_disable", False)

    return run


@pytest.fixture(scope="session")
def exports(folders, export):
    """The folders as folders of ONNX files, each made when it is asked for."""
    done = {}

    def made(name):
        if name not in done:
            done[name] = export(folders[name], folders[name].with_name(f"{name}-onnx"))
        return done[name]

    return made
