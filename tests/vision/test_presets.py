"""Every vision preset makes a model of its kind that reads an image and says which paper it is of."""

import math

import pytest
import torch

from regard.config import Config
from regard.config_io import from_dict, to_dict
from regard.presets.vision import vision, visions
from regard.task import build, build_empty
from regard.vision.blocks import blocks

MEASURED = {"resnet": 2.8, "dosovitskiy2020-vit": 86, "dosovitskiy2020-vit-small": 0.8}
"""Weights in millions."""


@pytest.mark.parametrize("name", visions)
def test_every_preset_makes_a_model_that_reads_its_images(name):
    config = vision(name)
    assert config.preset == name
    assert visions[name].__doc__
    assert from_dict(Config, to_dict(config)) == config
    with torch.device("meta"):
        model = build_empty(config.model, 29, 31)
    assert math.prod(model.encoder.stem.grid) in (49, 64, 196, 256)
    weights = sum(parameter.numel() for parameter in model.parameters())
    if name in MEASURED:
        assert round(weights / 1e6, 1 if weights < 10e6 else None) == MEASURED[name]
    if name.endswith("-small"):
        assert weights < 3e6
        image = config.model.image
        encoded = build(config.model, 29, 31).eval().encoder(torch.zeros(1, image.channels, image.size, image.size))
        assert encoded.states.shape == (1, 49 if config.model.task == "classify" else 64, image.width)


def test_every_system_has_a_small_sibling_with_the_same_block():
    for name in visions:
        if not name.endswith("-small"):
            large, small = vision(name).model, vision(f"{name}-small").model
            for part in ("block", "where", "within", "pooling", "positions"):
                assert getattr(small.image, part) == getattr(large.image, part)
            assert small.decoder.kind == large.decoder.kind
            assert (small.attention is None) == (large.attention is None)
            assert (small.task, small.questions.kind, small.detection.kind) == (
                large.task,
                large.questions.kind,
                large.detection.kind,
            )
    assert {vision(name).model.image.block for name in visions} <= {"none", *blocks}
