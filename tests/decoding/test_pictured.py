"""A captioner's search, laid over the image."""

import numpy as np
import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ImageConfig, ModelConfig
from regard.data.tokenizers.plain import WordTokenizer
from regard.decoding.pictured import look_at, over_image
from regard.decoding.search import search
from regard.errors import DisplayError
from regard.vision.build import build_captioner
from regard.vision.pixels import from_pixels

IMAGE = np.random.default_rng(0).integers(0, 256, (12, 20, 3)).astype(np.uint8)
OPTIONS = DecodingConfig(beam=3, max_length=5)


@pytest.fixture
def tokenizer():
    return WordTokenizer.learn(["a red ring above a blue star"])


@pytest.fixture
def model(tokenizer):
    torch.manual_seed(1)
    config = ModelConfig(
        embedding=24,
        encoder=EncoderConfig("none"),
        decoder=DecoderConfig("bahdanau", "lstm", width=24, readout="tanh", readout_width=24, start="mean"),
        attention=AttentionConfig("additive", width=17),
        image=ImageConfig("resnet", size=12, width=24, units=1),
    )
    return build_captioner(config, tokenizer.size).eval()


def test_words_weights_and_grid_are_those_of_the_best_hypothesis(model, tokenizer):
    larger = IMAGE.repeat(3, axis=0).repeat(3, axis=1)
    trace = look_at(model, IMAGE, tokenizer, OPTIONS, shown=larger)
    with torch.inference_mode():
        encoded, grid, _ = model.see(from_pixels(torch.from_numpy(IMAGE)[None]))
        found = search(model.decoder, encoded, OPTIONS, bos=2, eos=3, banned=(0, 2))[0][0]
    assert trace.grid == grid == (3, 5)
    assert trace.words == tuple(tokenizer.pieces(found.tokens))
    np.testing.assert_allclose(trace.look(), found.weights[:, 0, 0].numpy(), rtol=1e-5)
    assert trace.image is larger
    assert len(trace.trace.candidates) == len(trace.words)


def test_regions_without_a_place_cannot_be_laid_over_an_image(model, tokenizer):
    with torch.inference_mode():
        encoded = model.encode(from_pixels(torch.from_numpy(IMAGE)[None]))
        found = search(model.decoder, encoded, OPTIONS, bos=2, eos=3)[0][0]
    boxes = np.tile(np.array([1, 2, 3, 4], np.float32), (15, 1))
    assert over_image(found, IMAGE, tokenizer, boxes=boxes).trace.source[14] == "box 15"
    with pytest.raises(DisplayError, match="give one of the two"):
        over_image(found, IMAGE, tokenizer)
