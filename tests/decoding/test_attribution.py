"""Occlusion and gradient × input by hand, and what their agreement with attention is worth."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.data.batching import pad_sources
from regard.data.special_tokens import BOS, EOS
from regard.data.tokenizers import Tokenizers
from regard.decoding import attribution
from regard.decoding.attribution import (
    Agreement,
    agreement,
    gradient_times_input,
    rank_correlation,
    relative_entropy,
    source_gradient,
)
from regard.decoding.ensemble import Ensemble
from regard.decoding.translator import Translator
from regard.masks import reversal
from regard.presets import preset

from .test_editing import SYSTEMS, TEXT, WORDS, build, ids, make, tiny, unedited

NAMES = ["bahdanau2014-small", "luong see2017 copying", "transformer2017-small", "cheng2016-small", "gnmt2016-small"]


def test_gradient_times_input_of_a_linear_function_is_exact():
    torch.manual_seed(1)
    inputs, slopes, offset = torch.randn(3, 5, 7), torch.randn(5, 7), torch.randn(3)
    found = gradient_times_input(lambda x: (x * slopes).sum(dim=(1, 2)) + offset, inputs)
    torch.testing.assert_close(found, (inputs * slopes).sum(dim=-1))
    torch.testing.assert_close(found.sum(dim=1), (inputs * slopes).sum(dim=(1, 2)))


@pytest.mark.parametrize("name", [*NAMES, "sutskever2014-small"])
def test_the_gradient_is_the_slope_along_the_embedding(name, monkeypatch):
    """By finite differences, in float64: scale one source embedding up and down; sutskever2014 reads backwards."""
    monkeypatch.setattr(attribution, "PAIRS", 48)  # two rows at a time
    model = build(SYSTEMS[name] if name in SYSTEMS else tiny(preset(name).model), scale=1.0).double()
    source, target = [*ids(TEXT.split()), EOS], [*ids(["la", "robe", "un"]), EOS]
    with torch.inference_mode():  # as a server may call it
        found = source_gradient(model, source, target)
    read, mask = pad_sources([source])
    order = reversal(mask, kept=1)[0] if model.reverse_source else torch.arange(len(source))

    @torch.no_grad()
    def log_probs(place, factor):
        embedded = model.source_embedding(read[:, order])
        embedded[0, order.tolist().index(place)] *= factor
        encoded = model.turned(read, mask, lambda _: model.encoder(embedded, mask))
        every = model.decoder.logits(model.decoder.teach(torch.tensor([[BOS, *target[:-1]]]), encoded))[0]
        return every.log_softmax(dim=-1)[torch.arange(len(target)), target]

    for place in range(len(source)):
        slope = (log_probs(place, 1 + 1e-5) - log_probs(place, 1 - 1e-5)) / 2e-5
        np.testing.assert_allclose(found[:, place], slope, rtol=1e-3, atol=1e-5)
    assert np.abs(found).max() > 1e-3
    assert not model.training


@pytest.mark.parametrize("name", NAMES)
def test_occlusion_is_a_text_without_the_word(name):
    translator = make(SYSTEMS[name])
    before = unedited(translator)
    found = translator.attribution(before)
    words = TEXT.split()
    for place in range(len(words)):
        text = " ".join(words[:place] + words[place + 1 :])
        source, target = [*ids(text.split()), EOS], ids(before.tokens)
        with torch.no_grad():
            encoded = translator.model.encode(*pad_sources([source]))
            taught = translator.model.decoder.teach(torch.tensor([[BOS, *target[:-1]]]), encoded)
            own = translator.model.decoder.logits(taught)[0].log_softmax(dim=-1)[torch.arange(len(target)), target]
        expected = np.array(found.log_probs) - own.numpy()
        np.testing.assert_allclose(found.occlusion[:, place], expected, rtol=1e-3, atol=1e-4)
    assert np.isnan(found.occlusion[:, -1]).all()
    assert np.isnan(found.gradient[:, -1]).all()
    np.testing.assert_allclose(found.attention, before.attention.look(), atol=1e-5)
    np.testing.assert_allclose(found.coverage, before.attention.look().sum(axis=0), atol=1e-4)
    record = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert record["occlusion"][0][-1] is None
    assert len(record["head_agreement"]) == len(before.attention.weights)


@given(st.lists(st.integers(-50, 50), min_size=3, max_size=9))
def test_rank_correlation_knows_order_alone(values):
    row = np.array(values, float)
    found = rank_correlation(row, np.arctan(row))
    if len(set(values)) == 1:
        assert np.isnan(found)
        return
    assert found == pytest.approx(1)
    assert rank_correlation(row, -row) == pytest.approx(-1)
    other = np.arange(len(row)) ** 2.0
    assert rank_correlation(row, other) == pytest.approx(rank_correlation(row, np.arange(len(row))))


def test_rank_correlation_by_hand():
    # Without ties 1 - 6 Σd² / n(n² - 1); with ties the correlation of mean ranks.
    assert rank_correlation(np.array([1, 2, 3, 4, 5]), np.array([5, 6, 7, 8, 7.5])) == pytest.approx(0.9)
    assert rank_correlation(np.array([1, 1, 2.0]), np.array([0, 1, 2.0])) == pytest.approx(np.sqrt(3) / 2)


def test_entropy_is_relative_to_uniform_attention():
    rows = np.array([[0.25] * 4, [0, 1, 0, 0], [0.5, 0.5, 0, 0], [0] * 4], np.float32)
    np.testing.assert_allclose(relative_entropy(rows), [1, 0, 0.5, 0], atol=1e-6)


def test_agreement_by_hand():
    weights = np.array([[0.7, 0.2, 0.1], [0.2, 0.7, 0.1], [0.1, 0.2, 0.7]], np.float32)
    found = agreement(weights, weights * 9 - 3, [0, 1, 2])
    assert (found.same_top, found.correlation) == (1, pytest.approx(1))
    turned = agreement(weights, weights[[0, 2, 1]], [0, 1, 2])
    assert turned.same_top == pytest.approx(1 / 3)
    assert agreement(weights, weights, [0, 1]) is None


def test_findings_are_told_in_words():
    """A model that is told where to look: one word for all tokens, and so never at the others."""
    translator = make(SYSTEMS["bahdanau2014-small"])
    found = translator.attribution(unedited(translator))
    found = type(found)(
        **{
            **found.__dict__,
            "coverage": (0.01, 1.0, 4.0, 1.0, 1.0, 9.0),
            "entropy": (0.1, 0.3),
            "occlusion_agreement": Agreement(0.25, 0.75),
            "gradient_agreement": Agreement(None, 0.0),
        }
    )
    assert found.findings == (
        "Attention and occlusion agree: for 75% of the target tokens, the source token attended to most is the one "
        "without which its probability falls most. Over all ranks the correlation is 0.25.",
        "Attention and gradient × input do not agree: for 0% of the target tokens, the source token attended to most "
        "is the one to which it is most sensitive.",
        "The attention is sharp: its entropy is 20% of that of uniform attention.",
        "Attended to more than once, all steps together: “cat”.",
        "Attended to never, all steps together: “the”.",
    )


def test_what_cannot_be_measured_is_told(monkeypatch):
    blind = make(tiny(preset("sutskever2014-small").model))
    found = blind.attribution(unedited(blind))
    assert found.attention is None
    assert found.findings == (
        "This model has no attention, so there is nothing to compare with occlusion and gradients.",
    )
    assert np.isfinite(found.occlusion[:, :-1]).all()
    short = make(SYSTEMS["bahdanau2014-small"])
    found = short.attribution(unedited(short, "cat"))
    assert found.occlusion_agreement is None
    assert found.findings[0] == "The source is too short to say whether attention and occlusion agree."
    models = [build(SYSTEMS["bahdanau2014-small"], seed) for seed in (1, 2)]
    both = Translator(Ensemble(models), Tokenizers(WORDS, WORDS), DecodingConfig(max_length=4))
    found = both.attribution(unedited(both))
    assert found.gradient is None
    monkeypatch.setattr(attribution, "LONGEST", 100)
    assert blind.attribution(unedited(blind)).gradient is None
    assert len(found.head_agreement) == 2
