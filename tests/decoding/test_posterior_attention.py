"""Laws of alignments told with hindsight, against the equation written as a double loop; and that they are worth it."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.attention.focus.monotonic import Monotonic
from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.batching import pad_sources
from regard.data.pair import Pair
from regard.data.special_tokens import BOS
from regard.decoding import posterior_attention
from regard.decoding.posterior_attention import bayes, explain
from regard.decoding.teacher_forcing import force
from regard.errors import ModelError
from regard.masks import from_lengths
from regard.models.build import build_model
from regard.viz.trace import AttentionTrace

from .test_translator import MODEL, make

HEADS = AttentionConfig("scaled-dot", heads=2)
SYSTEMS = {
    "recurrent": MODEL,
    "recurrent, sparse": replace(MODEL, attention=replace(MODEL.attention, focus="sparsemax", temperature=0.1)),
    "recurrent, heads, fed": replace(
        MODEL,
        decoder=DecoderConfig(kind="luong", width=14, readout="tanh", readout_width=5, input_feeding=True),
        attention=replace(HEADS, coverage="see2017", score="additive", width=3),
    ),
    "transformer": ModelConfig(
        embedding=10,
        encoder=EncoderConfig("transformer", width=10, feed_forward=7, layers=1),
        decoder=DecoderConfig("transformer", width=10, feed_forward=7, layers=3),
        attention=HEADS,
        self_attention=HEADS,
        positions="sinusoidal",
    ),
}
PAIRS = [
    Pair("a cat", "un chat noir est vieille"),
    Pair("the red dress is old", "la robe"),
    Pair("dress", ""),
    Pair("is the old cat", "le vieille chat"),
]


def as_written(decoder, encoded, target):
    """Steps × layers × heads × places of one sentence without padding, from the equation, place by place."""
    state, before, found = decoder.start(encoded), BOS, []
    for token in target:
        step = decoder.step(torch.tensor([before]), state)
        (look,) = step.weights.double()
        shares = torch.zeros_like(look)
        for place in range(look.shape[-1]):
            alone = decoder.alone(state, torch.tensor([0]), torch.tensor([place]))
            every = decoder.step(torch.tensor([before]), alone, look=False).logits[0].double().softmax(dim=-1)
            shares[..., place] = look[..., place] * every[token]
        found.append(shares / shares.sum(dim=-1, keepdim=True))
        state, before = step.state, token
    return torch.stack(found)


def read(translator, texts):
    sources = translator._encode(texts)
    return translator.model.encode(*pad_sources(sources)), [len(source) for source in sources]


@pytest.fixture(params=SYSTEMS)
def translator(request):
    translator = make(SYSTEMS[request.param])
    translator.model.eval()
    return translator


@torch.no_grad()
def test_what_is_told_is_the_equation(translator, monkeypatch):
    """In a batch with padding on both sides, however many places are asked at a time."""
    decoder = translator.model.decoder
    encoded, lengths = read(translator, [pair.source for pair in PAIRS])
    _, targets = translator._encode_pairs(PAIRS)
    told = explain(decoder, encoded, targets)
    forced = force(decoder, encoded, targets, look=True)
    for row, (log_probs, weights) in enumerate(told):
        np.testing.assert_allclose(log_probs, forced[row][0], rtol=1e-4)
        looked = forced[row][1]
        assert weights.shape == looked.shape
        assert torch.equal(weights > 0, looked > 0)
        torch.testing.assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
        by_itself, _ = read(translator, [PAIRS[row].source])
        expected = as_written(decoder, by_itself, targets[row])
        torch.testing.assert_close(weights[..., : lengths[row]].double(), expected, rtol=1e-4, atol=1e-6)
        assert (weights[..., lengths[row] :] == 0).all()
    assert any(not torch.allclose(one, other, atol=0.01) for (_, one), (_, other) in zip(told, forced, strict=True))
    asked, alone = [], decoder.alone
    monkeypatch.setattr(
        decoder, "alone", lambda state, rows, places: asked.append(len(rows)) or alone(state, rows, places)
    )
    for numbers in (400, 1):
        asked.clear()
        monkeypatch.setattr(posterior_attention, "NUMBERS", numbers)
        for (log_probs, weights), (again, same) in zip(told, explain(decoder, encoded, targets), strict=True):
            assert again == log_probs
            torch.testing.assert_close(same, weights, rtol=1e-4, atol=1e-7)
    assert {*asked} == {1}


def test_a_translator_tells_it_for_each_pair_whatever_the_batch(translator):
    together = translator.align(PAIRS, posterior=True)
    looks = translator.align(PAIRS)
    assert any(
        not np.allclose(one.weights, other.weights, atol=0.01) for one, other in zip(looks, together, strict=True)
    )
    for pair, looked, trace in zip(PAIRS, looks, together, strict=True):
        assert (trace.source, trace.target) == (looked.source, looked.target)
        np.testing.assert_allclose(trace.log_probs, looked.log_probs, rtol=1e-4)
        (alone,) = translator.align([pair], batch_size=1, posterior=True)
        np.testing.assert_allclose(trace.weights, alone.weights, rtol=1e-3, atol=1e-5)


def test_a_sparse_look_stays_sparse():
    looked = make(SYSTEMS["recurrent, sparse"]).align(PAIRS)
    shares = np.concatenate([trace.weights.ravel() for trace in looked])
    assert 0.1 < (shares == 0).mean() < 0.9


def test_bayes_by_hand():
    weights = torch.tensor([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])[None, :, None]
    told = torch.tensor([[0.1, 0.2, 0.0, 0.9]]).log()
    found = bayes(weights, told)[0, :, 0]
    torch.testing.assert_close(found, torch.tensor([[0.5, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0] * 4]))
    # However little a place says of a word: 1e-60 is no number in float32.
    assert bayes(weights, torch.full((1, 4), -140.0))[0, 0, 0].tolist() == pytest.approx([0.5, 0.25, 0.25, 0.0])


def test_who_looks_everywhere_alike_is_told_where_each_word_came_from():
    """A decoder that sees the mean of all words, by construction, and says of a place alone the word that stands there.

    Each place says its own word with the odds e^g against any other, so a word's own place has e^g shares to one.
    """
    words, sure = 11, 6.0
    config = ModelConfig(
        embedding=5,
        encoder=EncoderConfig(width=words, bidirectional=False),
        decoder=DecoderConfig(kind="luong", width=7, readout="tanh", readout_width=words),
        attention=AttentionConfig(width=3),
    )
    torch.manual_seed(0)
    model = build_model(config, words, words).eval()
    source, lengths = torch.tensor([[4, 5, 6, 7, 4], [8, 9, 10, 0, 0]]), torch.tensor([5, 3])
    targets = [[6, 4, 5, 7], [10, 9, 8, 9, 10, 8, 7]]
    with torch.no_grad():
        model.decoder.attention.score.v_a.weight.zero_()
        model.decoder.readout.W_c.weight.copy_(torch.eye(words, 7 + words).roll(7, dims=1))  # the context alone
        model.decoder.output.weight.copy_(torch.eye(words) * sure / math.tanh(1.0))
        model.decoder.output.bias.zero_()
        encoded = model.encode(source, from_lengths(lengths))
        encoded = encoded._replace(states=torch.nn.functional.one_hot(source, words).float())
        told, looked = explain(model.decoder, encoded, targets), force(model.decoder, encoded, targets, look=True)
    for row, target in enumerate(targets):
        real = encoded.mask[row]
        for t, word in enumerate(target):
            torch.testing.assert_close(looked[row][1][t, 0, 0], real / real.sum())
            shares = torch.where(source[row] == word, math.exp(sure), 1.0) * real
            torch.testing.assert_close(told[row][1][t, 0, 0], shares / shares.sum())


@pytest.mark.parametrize("kind", ["bahdanau", "looking-back"])
def test_a_model_without_attention_tells_nothing(kind):
    decoder = replace(MODEL.decoder, kind=kind, width=14)
    (trace,) = make(replace(MODEL, decoder=decoder, attention=None, self_attention=HEADS)).align(
        PAIRS[:1], posterior=True
    )
    assert trace.weights.shape[0] == 0


@pytest.mark.parametrize("name", ["recurrent", "transformer"])
def test_who_finds_nothing_to_look_at_is_told_nothing(name):
    config = SYSTEMS[name]
    translator = make(replace(config, attention=replace(config.attention, focus="monotonic")))
    with torch.no_grad():
        for module in translator.model.modules():
            if isinstance(module, Monotonic):
                module.r.fill_(-1e4)
    for looked, told in zip(translator.align(PAIRS), translator.align(PAIRS, posterior=True), strict=True):
        assert (looked.weights == 0).all()
        assert (told.weights == 0).all()
        np.testing.assert_allclose(told.log_probs, looked.log_probs, rtol=1e-4)


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("options", [{"beam": 3}, {"method": "sample", "samples": 3}, {"max_length": 3}], ids=str)
def test_what_is_written_is_explained_token_by_token(name, options):
    """All else is as it was: text, tokens, score, candidates; also of tokens that the text would not be cut into."""
    translator = make(SYSTEMS[name])
    given = {"options": DecodingConfig(**options), "n_best": 2, "candidates": 2}
    texts = [pair.source for pair in PAIRS]
    every = translator.translate(texts, **given), translator.translate(texts, **given, posterior=True)
    for plain, told in zip(*every, strict=True):
        for one, other in zip([plain, *plain.n_best], [told, *told.n_best], strict=True):
            assert (one.text, one.tokens, one.score) == (other.text, other.tokens, other.score)
            first, second = one.attention.to_json(), other.attention.to_json()
            assert {key for key in first if first[key] != second[key]} - {"weights"} == {"posterior"}
            np.testing.assert_allclose(other.attention.weights.sum(axis=-1), 1, atol=1e-5)
    assert AttentionTrace.from_json(told.attention.to_json()).posterior


def test_who_asks_where_words_came_from_asks_for_looks():
    translator = make(SYSTEMS["transformer"])
    looked, told = (translator.translate(["a b"], posterior=True, look=look)[0].attention for look in (True, False))
    assert looked.words().size
    np.testing.assert_array_equal(told.words(), looked.words())


def test_a_target_beyond_the_places_that_there_are_is_told():
    system = SYSTEMS["transformer"]
    few = replace(system.self_attention, longest=4)
    translator = make(replace(system, positions="learned", self_attention=few, attention=few))
    with pytest.raises(ModelError) as error:
        translator.align([Pair("a b", "a b c d e f")], posterior=True)
    assert str(error.value) == "A target has 7 tokens, but the model has only 4 positions."
