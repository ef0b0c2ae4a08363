"""Laws of minimum Bayes risk: the sample most like all the others, by sacreBLEU's own numbers."""

from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.config import DecodingConfig
from regard.decoding.minimum_bayes_risk import rank, utilities
from regard.decoding.search import in_words, search
from regard.errors import ConfigError

from .test_search import BANNED, LENGTHS, assert_close
from .test_translator import TEXTS, make, same
from .toy_decoders import BOS, EOS, Oracle, only, pick, reread, sentences

WORDS = ["", "", "la", "le", "chat", "chats", "robe", "rouge", "un", "une", "noir"]
OPTIONS = DecodingConfig(method="mbr", samples=13, max_length=6)


def write(tokens):
    """Text of a toy decoder's tokens, which is longer than a number and shares letters with others."""
    return " ".join(WORDS[token] for token in tokens if token != EOS)


def run(decoder, encoded, options, **rest):
    return search(decoder, encoded, options, bos=BOS, eos=EOS, **{"banned": BANNED, "write": write, **rest})


@pytest.mark.parametrize("metric", ["chrf", "bleu"])
def test_it_is_the_sample_of_the_highest_mean_utility(metric):
    """Every sample against every sample, one by one, by sacreBLEU's own functions."""

    def utility(text, reference):
        if metric == "chrf":
            return sacrebleu.sentence_chrf(text, [reference]).score
        return sacrebleu.sentence_bleu(text, [reference]).score

    decoder, encoded = Oracle(size=11, seed=5), sentences(LENGTHS)
    options = replace(OPTIONS, mbr_metric=metric)
    samples = run(decoder, encoded, replace(options, method="sample"), n_best=13)
    for number, (drawn, found) in enumerate(zip(samples, run(decoder, encoded, options, n_best=13), strict=True)):
        texts = [write(sample.tokens) for sample in drawn]
        means = {text: sum(utility(text, other) for other in texts) / 13 for text in texts}
        assert len(found) == len(means) > 5
        assert [h.score for h in found] == pytest.approx(sorted(means.values(), reverse=True))
        for hypothesis in found:
            assert hypothesis.score == pytest.approx(means[write(hypothesis.tokens)])
            log_probs, _, weights = reread(decoder, only(encoded, number), hypothesis.tokens)
            assert_close(hypothesis.log_probs, log_probs)
            assert_close(hypothesis.weights, weights)


@given(st.lists(st.text(st.sampled_from("ab é."), max_size=20), min_size=1, max_size=5))
def test_utilities_are_those_of_sacrebleu(texts):
    peers = {"chrf": CHRF(), "bleu": BLEU(effective_order=True)}
    for name, utility in utilities.items():
        theirs = [[peers[name].sentence_score(text, [right]).score for right in texts] for text in texts]
        np.testing.assert_array_equal(utility(texts), theirs, err_msg=name)


def test_of_many_that_are_the_same_there_is_one_and_it_counts_as_often_as_it_came():
    asked = []

    def alike(texts):
        asked.append(texts)
        return 100.0 * np.eye(len(texts))

    assert rank(["b", "a", "b", "c", "b", "a"], alike) == [
        (0, 50.0),
        (1, pytest.approx(100 / 3)),
        (3, pytest.approx(100 / 6)),
    ]
    assert asked == [["b", "a", "c"]]


def test_equal_texts_are_as_good_as_can_be_and_an_outlier_is_not_chosen():
    for name, utility in utilities.items():
        found = utility(["un chat noir", "un chat rouge", "une robe"])
        assert np.diagonal(found) == pytest.approx(100.0), name
        assert found[0, 1] > found[2, 1], name
        assert rank(["xyz", "un chat noir", "un chat rouge"], utility)[-1][0] == 0, name


def test_nothing_can_be_the_best_and_breaks_nothing():
    """A model that says nothing: sacreBLEU finds nothing in it that could be right."""
    for utility in utilities.values():
        assert rank(["", "", "a"], utility)[0][1] >= 0
    found = run(Oracle(size=11), sentences([3]), OPTIONS, write=lambda tokens: "")
    assert len(found[0]) == 1


def test_one_sample_is_that_sample():
    decoder, encoded = Oracle(size=11, seed=5), sentences(LENGTHS)
    one = replace(OPTIONS, samples=1, min_length=1)
    for (found,), (drawn,) in zip(
        run(decoder, encoded, one), run(decoder, encoded, replace(one, method="sample")), strict=True
    ):
        assert found.tokens == drawn.tokens
        assert found.score == pytest.approx(100.0)


def test_company_changes_nothing():
    decoder, encoded, keys = Oracle(size=11, seed=5), sentences(LENGTHS), [5, 6, 7, 8]
    together = run(decoder, encoded, OPTIONS, keys=keys)
    for number, found in zip((3, 1), run(decoder, pick(encoded, [3, 1]), OPTIONS, keys=[8, 6]), strict=True):
        assert found[0].tokens == together[number][0].tokens
    translator = make(options=DecodingConfig(method="mbr", samples=9, max_length=7))
    for text, found in zip(TEXTS[:4], translator.translate(TEXTS[:4], batch_size=2), strict=True):
        same(found, translator.translate([text])[0])


@pytest.mark.parametrize(
    ("changes", "n_best", "message"),
    [
        ({"samples": 0}, 1, "decoding.samples is 0; it must be at least 1."),
        (
            {"samples": 4},
            5,
            "n_best is 5 but decoding.samples is 4: there are too few samples to choose from. Set it to 5 or more.",
        ),
        (
            {"mbr_metric": "chrff"},
            1,
            "No utility named 'chrff'. Did you mean 'chrf'? (regard list utilities shows all)",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(changes, n_best, message):
    with pytest.raises(ConfigError) as error:
        run(Oracle(size=6), sentences([3]), replace(OPTIONS, **changes), n_best=n_best)
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("options", "members", "words"),
    [
        (DecodingConfig(), 1, "beam 5, length penalty 1, coverage penalty 0"),
        (DecodingConfig(beam=1), 1, "greedy search, length penalty 1, coverage penalty 0"),
        (
            DecodingConfig(method="diverse", beam=6, groups=3),
            1,
            "diverse beam 6 in 3 groups, diversity 0.5, length penalty 1, coverage penalty 0",
        ),
        (
            DecodingConfig(method="sample", temperature=0.7, top_k=40, top_p=0.9, max_length=50),
            1,
            "sampling, temperature 0.7, top 40, nucleus 0.9, seed 1, at most 50 tokens",
        ),
        (
            DecodingConfig(method="mbr"),
            2,
            "ensemble of 2 (arithmetic mean), minimum Bayes risk of 32 samples by chrf, temperature 1, seed 1",
        ),
        (
            DecodingConfig(min_length=3, replace_unknown=True),
            1,
            "beam 5, length penalty 1, coverage penalty 0, at least 3 tokens, unknown words replaced",
        ),
        (
            DecodingConfig(max_ratio=0.1),
            1,
            "beam 5, length penalty 1, coverage penalty 0, at most 0.1 tokens for each source token and ten",
        ),
    ],
)
def test_a_search_is_told_in_words(options, members, words):
    assert in_words(options, members) == words
