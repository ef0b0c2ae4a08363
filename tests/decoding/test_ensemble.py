"""Laws of ensembles: of one model, of several, in any order; and what cannot be put together."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import (
    AttentionConfig,
    Config,
    DataConfig,
    DecoderConfig,
    DecodingConfig,
    EncoderConfig,
    TokenizerConfig,
)
from regard.data.pair import Pair
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding.ensemble import Ensemble, EnsembleDecoder, ReadByAll
from regard.decoding.search import search
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError

from .test_posterior_attention import as_written, read
from .test_translator import MODEL, SOURCE, TEXTS, make, same, write_folder
from .toy_decoders import BOS, EOS, Oracle, reread, sentences

LUONG = replace(
    MODEL,
    decoder=DecoderConfig(kind="luong", width=14, readout="tanh", readout_width=5, layers=2, input_feeding=True),
    attention=AttentionConfig(score="scaled-dot", heads=2),
)
BLIND = replace(MODEL, attention=None)
READABLE = [text for text in TEXTS if text.strip()]


def together(*translators, **rest):
    return Translator(Ensemble([t.model for t in translators]), translators[0].tokenizers, **rest)


def read_by(decoders, encoded):
    return ReadByAll.of([encoded for _ in decoders])


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_model_with_itself_is_the_model(count, mean):
    one = make()
    options = DecodingConfig(beam=3, ensemble=mean)
    several = together(*[one] * count, options=options)
    for alone, found in zip(
        one.translate(TEXTS, n_best=3, options=options), several.translate(TEXTS, n_best=3), strict=True
    ):
        assert found.text == alone.text
        assert found.score == pytest.approx(alone.score, rel=1e-4)
        assert [t.text for t in found.n_best] == [t.text for t in alone.n_best]
        if alone.text:
            assert found.attention.weights.shape[0] == count
            np.testing.assert_allclose(found.attention.look(), alone.attention.look(), atol=1e-5)
            np.testing.assert_allclose(found.attention.look(layer=0), alone.attention.look(), atol=1e-5)
    pairs = [Pair("a cat", "un chat"), Pair("the red dress", "la robe")]
    for alone, found in zip(one.score(pairs), several.score(pairs), strict=True):
        np.testing.assert_allclose(found, alone, rtol=1e-4)


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_the_order_of_the_members_does_not_matter(mean):
    members = [make(MODEL, seed=0), make(LUONG, seed=1), make(BLIND, seed=2)]
    options = DecodingConfig(beam=3, ensemble=mean)
    first, second = (together(*order, options=options) for order in (members, members[::-1]))
    for one, other in zip(first.translate(TEXTS), second.translate(TEXTS), strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, rel=1e-4)
        if one.text:
            np.testing.assert_allclose(one.attention.look(), other.attention.look(), atol=1e-5)


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_probabilities_are_averaged_and_normalised(mean):
    """The mean, written down term by term, at every prefix that a search went through."""
    decoders = [Oracle(size=7, seed=seed) for seed in range(3)]
    decoder = EnsembleDecoder(decoders, mean)
    encoded = sentences([5])
    options = DecodingConfig(beam=3, length_penalty=0.0)
    (found,) = search(decoder, read_by(decoders, encoded), options, bos=BOS, eos=EOS, n_best=3)
    assert len(found) == 3
    for hypothesis in found:
        every = [reread(member, encoded, hypothesis.tokens)[1] for member in decoders]
        for t, (token, log_prob) in enumerate(zip(hypothesis.tokens, hypothesis.log_probs, strict=True)):
            rows = [member[t].exp().tolist() for member in every]
            if mean == "arithmetic":
                joint = [sum(p) / 3 for p in zip(*rows, strict=True)]
            else:
                products = [math.prod(p) ** (1 / 3) for p in zip(*rows, strict=True)]
                joint = [p / sum(products) for p in products]
            assert sum(joint) == pytest.approx(1.0, rel=1e-5)
            assert log_prob == pytest.approx(math.log(joint[token]), rel=1e-4)
        assert hypothesis.score == pytest.approx(sum(hypothesis.log_probs), rel=1e-5)
        expected = torch.cat([reread(member, encoded, hypothesis.tokens)[2] for member in decoders], dim=1)
        torch.testing.assert_close(hypothesis.weights, expected)


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_the_score_of_what_was_found_is_its_score_when_it_is_forced(mean):
    options = DecodingConfig(beam=3, length_penalty=0.0, ensemble=mean)
    ensemble = together(make(MODEL, seed=0), make(LUONG, seed=1), options=options)
    found = ensemble.translate(READABLE)
    ended = [(text, t) for text, t in zip(READABLE, found, strict=True) if t.tokens[-1] == "</s>"]
    assert ended
    pairs = [Pair(text, t.text) for text, t in ended]
    for (_, translation), log_probs, trace in zip(ended, ensemble.score(pairs), ensemble.align(pairs), strict=True):
        assert sum(log_probs) == pytest.approx(translation.score, rel=1e-4)
        np.testing.assert_allclose(trace.weights, translation.attention.weights, atol=1e-5)


def test_layers_stand_in_the_order_of_the_members_and_heads_that_differ_are_averaged():
    one, other, blind = make(MODEL, seed=0), make(LUONG, seed=1), make(BLIND, seed=2)
    pairs = [Pair("the red dress", "la robe rouge")]
    (first,), (second,) = one.align(pairs), other.align(pairs)
    assert (first.weights.shape[:2], second.weights.shape[:2]) == ((1, 1), (1, 2))
    (both,) = together(one, blind, other).align(pairs)
    assert both.weights.shape[:2] == (2, 1)
    np.testing.assert_allclose(both.look(layer=0), first.look(), atol=1e-6)
    np.testing.assert_allclose(both.look(layer=1), second.look(), atol=1e-6)
    (twice,) = together(other, other).align(pairs)
    assert twice.weights.shape[:2] == (2, 2)
    np.testing.assert_allclose(twice.weights[1], second.weights[0], atol=1e-6)
    (none,) = together(blind, blind).align(pairs)
    assert none.weights.shape[0] == 0


@pytest.mark.parametrize("mean", ["arithmetic", "geometric"])
def test_where_words_came_from_is_told_by_all_members_together(mean):
    """Each layer's looks are weighed by what the mean says of a place that every member that looks sees alone."""
    one, other, blind = make(MODEL, seed=0), make(LUONG, seed=1), make(BLIND, seed=2)
    pairs = [Pair("the red dress", "la robe rouge"), Pair("a cat", "un chat noir est vieille")]
    ensemble = together(one, blind, other, options=DecodingConfig(ensemble=mean))
    ensemble.model.eval()
    told = ensemble.align(pairs, posterior=True)
    for pair, looked, trace in zip(pairs, ensemble.align(pairs), told, strict=True):
        assert trace.weights.shape == looked.weights.shape
        assert trace.weights.shape[:2] == (2, 1)
        np.testing.assert_allclose(trace.log_probs, looked.log_probs, rtol=1e-4)
        (encoded, _), (_, (target,)) = read(ensemble, [pair.source]), ensemble._encode_pairs([pair])
        with torch.no_grad():
            expected = as_written(ensemble.decoder(ensemble.options), encoded, target)
        np.testing.assert_allclose(trace.weights, expected.permute(1, 2, 0, 3), rtol=1e-3, atol=1e-5)
    alone, twice = (each.align(pairs, posterior=True) for each in (other, together(other, other)))
    for single, trace in zip(alone, twice, strict=True):
        assert trace.weights.shape[:2] == (2, 2)
        for layer in trace.weights:
            np.testing.assert_allclose(layer, single.weights[0], rtol=1e-3, atol=1e-5)
    assert together(blind, blind).align(pairs, posterior=True)[0].weights.shape[0] == 0


def test_given_options_say_the_mean_wherever_they_are_taken():
    members = [make(seed=seed) for seed in range(3)]
    geometric, pairs = DecodingConfig(ensemble="geometric"), [Pair("the red dress", "la robe rouge")]
    own, given = together(*members, options=geometric), together(*members)
    assert own.score(pairs) != given.score(pairs)
    assert own.score(pairs) == given.score(pairs, options=geometric)
    every = own.align(pairs, posterior=True), given.align(pairs, posterior=True, options=geometric)
    np.testing.assert_array_equal(*(trace.weights for (trace,) in every))
    texts = ["the red dress is old"]
    told = own.translate(texts, posterior=True), given.translate(texts, posterior=True, options=geometric)
    np.testing.assert_array_equal(*(found.attention.weights for (found,) in told))


def test_an_ensemble_of_models_that_are_wrong_in_different_places_is_better_than_each():
    """Two oracles that are sure of the right token at every other step only."""
    right = [4, 5, 4, 5, EOS]

    class Half(Oracle):
        def __init__(self, odd):
            super().__init__(size=7)
            self.odd = odd

        def start(self, encoded):
            return type(super().start(encoded))(torch.zeros(len(encoded.mask), dtype=torch.long), encoded.mask)

        def step(self, token, state, look=True):
            step = super().step(token, state)
            logits = torch.zeros(len(token), self.size)
            for row, at in enumerate(state.mark.tolist()):
                sure = at < len(right) and at % 2 == self.odd
                logits[row, right[at] if sure else 6] = 5.0 if sure else 1.0
            return step._replace(logits=logits, state=type(state)(state.mark + 1, state.mask))

    decoders = [Half(0), Half(1)]
    options = DecodingConfig(beam=1, max_length=5)
    (found,) = search(EnsembleDecoder(decoders), read_by(decoders, sentences([3])), options, bos=BOS, eos=EOS)
    assert found[0].tokens == right
    for decoder in decoders:
        (alone,) = search(decoder, sentences([3]), options, bos=BOS, eos=EOS)
        assert alone[0].tokens != right


@pytest.mark.parametrize("method", ["beam", "diverse", "sample", "mbr"])
def test_every_method_decodes_an_ensemble(method):
    options = DecodingConfig(beam=4, method=method, samples=4)
    ensemble = together(make(MODEL, seed=0), make(LUONG, seed=1), options=options)
    every = ensemble.translate(READABLE, n_best=2)
    for text, found in zip(READABLE, every, strict=True):
        (alone,) = ensemble.translate([text], n_best=2)
        same(found, alone)


# -- folders ----------------------------------------------------------------------------------------------------------


def folder(path, translator, config, **rest):
    path.mkdir()
    write_folder(path, translator, Config(model=config, **rest))
    return path


def test_several_folders_are_loaded_as_one(tmp_path):
    import regard

    a = folder(tmp_path / "a", make(MODEL, seed=0), MODEL, data=DataConfig(max_length=9))
    b = folder(
        tmp_path / "b", make(LUONG, seed=1), LUONG, data=DataConfig(max_length=7), decoding=DecodingConfig(beam=2)
    )
    loaded = regard.load(a, b)
    assert (loaded.members, loaded.longest, loaded.options.beam) == (2, 7, 5)
    expected = together(make(MODEL, seed=0), make(LUONG, seed=1))
    for one, other in zip(loaded.translate(READABLE), expected.translate(READABLE), strict=True):
        same(one, other)
    assert Translator.load([a]).members == 1
    assert regard.load(a).model.reads


def test_models_with_other_vocabularies_are_refused(tmp_path):
    a = folder(tmp_path / "a", make(MODEL), MODEL)
    other = Tokenizers(SOURCE, Words(["la", "robe", "rouge", "est", "vieille", "un", "chat", "le", "blanc"]))
    b = folder(tmp_path / "b", make(MODEL, tokenizers=other), MODEL)
    with pytest.raises(ModelError) as error:
        Translator.load([a, b])
    assert str(error.value) == (
        f"{a} and {b} cannot form an ensemble: it needs the same vocabularies, and theirs differ. Train both on the "
        "same data with the same tokenizer settings."
    )
    c = folder(tmp_path / "c", make(MODEL, tokenizers=other), MODEL, tokenizer=TokenizerConfig(joint=False))
    with pytest.raises(ModelError, match=r"theirs differ \(tokenizer\.joint: True → False\)\. Train both"):
        Translator.load([a, c])


def test_a_language_model_and_a_translator_are_refused(tmp_path):
    lm = replace(
        BLIND, encoder=EncoderConfig(kind="none"), decoder=replace(MODEL.decoder, kind="luong", readout="tanh")
    )
    a = folder(tmp_path / "a", make(MODEL), MODEL)
    b = folder(tmp_path / "b", make(lm), lm)
    with pytest.raises(ModelError) as error:
        Translator.load([a, b])
    assert str(error.value) == (
        f"{a} and {b} cannot form an ensemble: one of them is a language model, which has no source."
    )
    with pytest.raises(ConfigError) as refused:
        Ensemble([make(MODEL).model, make(lm).model])
    assert str(refused.value) == ("An ensemble is of translators or of language models: the two cannot be combined.")


def test_no_models_are_none():
    with pytest.raises(ModelError) as error:
        Translator.load([])
    assert str(error.value) == "There is no model to load: name at least one model folder."
    with pytest.raises(ConfigError, match="An ensemble needs at least one model"):
        Ensemble([])


def test_the_mean_must_be_one_of_two():
    with pytest.raises(ConfigError) as error:
        make().translate(["a"], options=DecodingConfig(ensemble="aritmetic"))
    assert str(error.value) == (
        "decoding.ensemble is 'aritmetic'; it must be arithmetic or geometric. Did you mean 'arithmetic'?"
    )
