"""Models that read nothing: texts are continued, scored, and have no source to look at."""

import logging
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import AttentionConfig, DecoderConfig, DecodingConfig, EncoderConfig, ModelConfig
from regard.data.pair import Pair
from regard.data.special_tokens import EOS
from regard.data.tokenizers import Tokenizers
from regard.decoding.ensemble import Ensemble
from regard.decoding.translator import Translator
from regard.errors import ConfigError, ModelError
from regard.models.build import build_model
from regard.tasks.language_modelling.attend import look_back
from regard.tasks.translation.evaluation import evaluate

from .test_translator import TARGET, make, same

LSTM = ModelConfig(
    embedding=11,
    encoder=EncoderConfig(kind="none"),
    decoder=DecoderConfig(kind="luong", cell="lstm", width=13, readout="tanh", readout_width=5),
    attention=None,
)
GPT = ModelConfig(
    embedding=8,
    encoder=EncoderConfig(kind="none"),
    decoder=DecoderConfig(kind="transformer", width=8, layers=2, feed_forward=13),
    attention=None,
    self_attention=AttentionConfig(score="scaled-dot", heads=2, project=True),
    positions="sinusoidal",
)
TEXTS = ["la robe", "", "un chat noir est", "le"]
both = pytest.mark.parametrize("config", [LSTM, GPT], ids=["lstm", "gpt"])


def language_model(config=LSTM, **rest):
    return make(config, Tokenizers(TARGET, TARGET), **{"longest": 7, **rest})


@both
def test_texts_are_continued_and_the_whole_is_given(config):
    model = language_model(config)
    for text, found in zip(TEXTS, model.translate(TEXTS, beam=3, n_best=3), strict=True):
        for one in (found, *found.n_best):
            assert one.text == text or one.text.startswith(f"{text} " if text else "")
            assert one.tokens[: len(text.split())] == tuple(text.split())
            assert one.attention.source == ()
            assert one.attention.weights.shape[0] == 0
            assert one.attention.weights.shape[2:] == (len(one.tokens), 0)
        (alone,) = model.translate([text], beam=3, n_best=3)
        same(found, alone)


@both
def test_a_score_is_the_teacher_forced_one_of_the_whole_text(config):
    model = language_model(config)
    found = model.translate(TEXTS, options=DecodingConfig(beam=3, length_penalty=0.0))
    ended = [one for one in found if one.tokens[-1] == "</s>"]
    assert ended
    for one, log_probs in zip(ended, model.score([Pair("", one.text) for one in ended]), strict=True):
        assert one.score == pytest.approx(sum(log_probs), rel=1e-4)
        assert len(log_probs) == len(one.tokens)
    # A source beside it changes nothing.
    np.testing.assert_allclose(model.score([Pair("chat", "la robe")]), model.score([Pair("", "la robe")]))


def test_what_was_given_is_given_back_as_it_was():
    """Also what the vocabulary does not know, and white space that it does not keep."""
    for text in ("la zebra  robe", " le", "un chat\t"):
        for found in language_model().translate([text], beam=2, n_best=2, options=DecodingConfig(min_length=6)):
            assert all(one.text.startswith(f"{text} ") for one in (found, *found.n_best))


def test_the_longest_text_is_what_it_was_trained_on():
    def written(text="", longest=7, **options):
        model = language_model(longest=longest, options=DecodingConfig(beam=1, **options))
        with torch.no_grad():
            model.model.decoder.output.bias[EOS] = -99.0  # it would go on for ever
        return len(model.translate([text])[0].tokens)

    assert written(longest=20) == 21  # the end mark counted
    assert written("la " * 9) == 19  # always room for ten more
    assert written(min_length=30) == 31
    assert written(longest=0) == 129
    assert written(max_length=3) == 3


def test_a_text_may_fill_the_places_that_there_are_but_not_more():
    places = replace(GPT, positions="learned", self_attention=replace(GPT.self_attention, longest=4))
    model = language_model(places)
    assert model.translate(["la robe rouge est"])[0].text == "la robe rouge est"
    with pytest.raises(ConfigError) as error:
        model.translate(["le", "la robe rouge est vieille"])
    assert str(error.value) == (
        "A prefix, or a text to be continued, has 5 tokens but the model has only 4 positions: shorten it to 4 tokens "
        "or fewer."
    )


def test_a_long_text_is_warned_about(caplog):
    with caplog.at_level(logging.WARNING, "regard"):
        language_model(longest=3).translate(["la la la la", "le"], beam=1)
    assert [record.getMessage() for record in caplog.records] == [
        "A text of 4 tokens is longer than those the model was trained on (up to 3). "
        "It is read to its end, but may be continued badly: la la la la…"
    ]


@both
def test_from_nothing_it_writes_as_it_was_taught_to(config):
    """Samples of an untrained model's first words come as often as it says, and each text is continued by itself."""
    model = language_model(config, options=DecodingConfig(method="sample", max_length=1))
    (found,) = model.translate([""], n_best=600)
    drawn = [one.tokens[0] for one in (found, *found.n_best)]
    assert len(drawn) == 600
    pieces = TARGET.pieces(range(TARGET.size))
    texts = {piece: "" if piece == "</s>" else piece for piece in pieces if piece not in ("<pad>", "<s>")}
    firsts = model.score([Pair("", text) for text in texts.values()])
    chances = {piece: np.exp(log_probs[0]) for piece, log_probs in zip(texts, firsts, strict=True)}
    assert len(set(drawn)) > 3
    for piece, chance in chances.items():
        expected = chance / sum(chances.values())  # padding and start are never written
        assert drawn.count(piece) / 600 == pytest.approx(expected, abs=4 * (0.25 / 600) ** 0.5)


def test_it_has_no_source_to_look_at_and_needs_no_prefix():
    model = language_model()
    with pytest.raises(ModelError) as error:
        model.align([Pair("", "la robe")])
    assert str(error.value) == "This model has no attention to a source: it is a language model, which has none."
    with pytest.raises(ConfigError) as refused:
        model.translate(["la"], prefix=["robe"])
    assert str(refused.value) == ("A language model continues the texts themselves: put the prefix there.")
    assert model.translate(["la"], prefix=[""])


BACK = replace(LSTM, decoder=replace(LSTM.decoder, kind="looking-back"), self_attention=AttentionConfig(score="dot"))
TAPE = replace(LSTM, decoder=replace(LSTM.decoder, kind="lstmn", readout="none"))


@pytest.mark.parametrize(
    ("config", "layers", "heads", "first"),
    [(GPT, 2, 2, 1), (BACK, 1, 1, 0), (TAPE, 1, 4, 0)],
    ids=["gpt", "looking-back", "lstmn"],
)
def test_it_looks_back_at_its_own_text(config, layers, heads, first):
    model = language_model(config)
    trace = look_back(model, "la robe noir")
    assert trace.source == ("<s>", "la", "robe", "noir")
    assert trace.target == ("la", "robe", "noir", "</s>")
    assert trace.weights.shape == (layers, heads, 4, 4)
    assert trace.log_probs == pytest.approx(model.score([Pair("", "la robe noir")])[0])
    assert np.triu(trace.weights, k=first).max() == 0  # what comes later is not looked at
    sums = trace.weights.sum(axis=-1)
    assert sums[:, :, 1:] == pytest.approx(1, abs=1e-5)
    assert sums[:, :, 0] == pytest.approx(first, abs=1e-5)


def test_heads_of_several_that_differ_are_averaged():
    four = replace(GPT, self_attention=replace(GPT.self_attention, heads=4))
    members = [language_model(GPT, seed=0), language_model(four, seed=1)]
    together = Translator(Ensemble([m.model for m in members]), members[0].tokenizers)
    trace = look_back(together, "la robe noir")
    assert trace.weights.shape == (4, 1, 4, 4)
    alone = [look_back(member, "la robe noir").weights.mean(axis=1, keepdims=True) for member in members]
    np.testing.assert_allclose(trace.weights, np.concatenate(alone), atol=1e-6)
    same_heads = Translator(Ensemble([members[0].model, language_model(GPT, seed=2).model]), members[0].tokenizers)
    assert look_back(same_heads, "la robe noir").weights.shape == (4, 2, 4, 4)


def test_one_without_attention_has_no_looks():
    assert look_back(language_model(), "la robe").weights.shape == (0, 0, 3, 3)


def test_several_write_together():
    torch.manual_seed(3)
    members = [language_model(LSTM, seed=0), language_model(GPT, seed=1)]
    model = Translator(Ensemble([m.model for m in members]), members[0].tokenizers, longest=7)
    for text, found in zip(TEXTS, model.translate(TEXTS, options=DecodingConfig(length_penalty=0.0)), strict=True):
        assert found.text.startswith(text)
        if found.tokens[-1] == "</s>":
            assert found.score == pytest.approx(sum(model.score([Pair("", found.text)])[0]), rel=1e-4)


def test_it_is_evaluated_by_its_perplexity_alone():
    model = language_model()
    pairs = [Pair("", "la robe rouge"), Pair("", "un chat")]
    report = evaluate(model, pairs)
    assert [score.name for score in report.scores] == ["perplexity"]
    log_probs = [value for sentence in model.score(pairs) for value in sentence]
    assert report["perplexity"].value == pytest.approx(np.exp(-np.mean(log_probs)))
    assert (report.by_length, report.translations) == ((), ())
    assert len(str(report).splitlines()) == 2


def test_vocabularies_of_both_sides_may_be_the_same_one():
    model = build_model(replace(LSTM, tie="output", decoder=replace(LSTM.decoder, readout_width=11)), 5, TARGET.size)
    assert Translator(model, Tokenizers(TARGET, TARGET)).translate(["la"], options=DecodingConfig(max_length=3))
