"""Laws of sampling: what is drawn how often, from what, and that it depends on seed and sentence alone."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.config import DecodingConfig
from regard.decoding.sampling import Draw, nucleus, uniform
from regard.decoding.search import search
from regard.errors import ConfigError, ModelError

from . import naive
from .test_search import BANNED, LENGTHS, Broken, assert_close
from .test_translator import TEXTS, make, same
from .toy_decoders import BOS, EOS, Oracle, only, pick, reread, sentences

SAMPLE = DecodingConfig(method="sample", max_length=9)


def run(decoder, encoded, options, **rest):
    return search(decoder, encoded, options, bos=BOS, eos=EOS, **{"banned": BANNED, **rest})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 2},
        {"top_p": 0.6},
        {"temperature": 1.5, "top_k": 3, "top_p": 0.8},
        {"min_length": 2},
    ],
    ids=str,
)
def test_sequences_are_drawn_as_often_as_they_are_probable(changes):
    """Pearson's statistic over all sequences there are: its mean is their number less one."""
    decoder, encoded, count = Oracle(size=7, seed=3), sentences([3]), 5000
    options = replace(SAMPLE, max_length=3, **changes)
    (found,) = run(decoder, encoded, options, n_best=count)
    drawn = Counter(tuple(hypothesis.tokens) for hypothesis in found)
    expected = {tokens: count * p for tokens, p in naive.chances(decoder, encoded, options, BANNED).items()}
    assert sum(expected.values()) == pytest.approx(count)
    assert set(drawn) <= set(expected), "something was drawn that cannot be"
    # What is expected less than five times is counted together, as is usual.
    rare = {tokens for tokens, often in expected.items() if often < 5}
    cells = [(drawn[tokens], often) for tokens, often in expected.items() if tokens not in rare]
    if rare and sum(expected[tokens] for tokens in rare) >= 5:
        cells.append((sum(drawn[tokens] for tokens in rare), sum(expected[tokens] for tokens in rare)))
    statistic, freedom = sum((seen - often) ** 2 / often for seen, often in cells), len(cells) - 1
    assert freedom >= 3
    assert statistic < freedom + 4 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("narrow", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-6}, {"temperature": 1e-300}])
def test_the_narrowest_sampling_is_greedy_search(narrow):
    decoder, encoded = Oracle(size=11, seed=5), sentences(LENGTHS)
    greedy = run(decoder, encoded, DecodingConfig(beam=1, length_penalty=0.0, max_length=9))
    for (expected,), found in zip(greedy, run(decoder, encoded, replace(SAMPLE, **narrow), n_best=3), strict=True):
        for hypothesis in found:
            assert hypothesis.tokens == expected.tokens
            assert hypothesis.score == pytest.approx(expected.score, rel=1e-5)
            assert_close(hypothesis.weights, expected.weights)


@pytest.mark.parametrize("changes", [{}, {"temperature": 2.0, "top_k": 4}], ids=str)
def test_score_and_attention_are_those_of_the_model_for_the_sample_itself(changes):
    """Whatever it was drawn from, a sample's score is its log-probability; penalties have no part in it."""
    decoder, encoded = Oracle(size=11, seed=5), sentences(LENGTHS, padding=2)
    options = replace(SAMPLE, length_penalty=1.0, coverage_penalty=0.5, **changes)
    for number, found in enumerate(run(decoder, encoded, options, n_best=5, candidates=3)):
        assert len({tuple(h.tokens) for h in found}) > 1
        for hypothesis in found:
            log_probs, every, weights = reread(decoder, only(encoded, number), hypothesis.tokens)
            assert_close(hypothesis.log_probs, log_probs)
            assert hypothesis.score == pytest.approx(sum(log_probs), rel=1e-5)
            assert_close(hypothesis.weights, weights)
            for step, row in zip(hypothesis.candidates, every, strict=True):
                assert [token for token, _ in step] == row.argsort(descending=True)[:3].tolist()


def test_a_sample_depends_on_seed_and_sentence_alone():
    decoder, encoded, keys = Oracle(size=11, seed=5), sentences(LENGTHS), [17, 4, 2**64 - 1, 99]
    together = run(decoder, encoded, SAMPLE, n_best=5, keys=keys)
    order = [2, 0, 3]
    some = run(decoder, pick(encoded, order), SAMPLE, n_best=2, keys=[keys[i] for i in order])
    for number, found in zip(order, some, strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in together[number][:2]]
    again = run(decoder, encoded, SAMPLE, n_best=5, keys=keys)
    assert [[h.tokens for h in found] for found in again] == [[h.tokens for h in found] for found in together]
    other = run(decoder, encoded, replace(SAMPLE, seed=2), n_best=5, keys=keys)
    assert [[h.tokens for h in found] for found in other] != [[h.tokens for h in found] for found in together]


def test_samples_are_given_as_they_were_drawn_also_those_that_were_cut_off():
    decoder, options = Oracle(size=11, seed=5), replace(SAMPLE, max_length=4)
    (found,) = run(decoder, sentences([3]), options, n_best=40)
    assert len(found) == 40
    ended = [hypothesis.tokens[-1] == EOS for hypothesis in found]
    assert ended != sorted(ended, reverse=True)
    scores = [hypothesis.score for hypothesis in found]
    assert scores != sorted(scores, reverse=True)


def test_a_prefix_is_written_and_not_drawn():
    decoder, prefix = Oracle(size=11, seed=5), [[4, 0], [], [5, 6, 7], [8]]
    for start, found in zip(prefix, run(decoder, sentences(LENGTHS), SAMPLE, n_best=4, prefix=prefix), strict=True):
        assert all(hypothesis.tokens[: len(start)] == start for hypothesis in found)
        assert all(not {*BANNED} & {*hypothesis.tokens[len(start) :]} for hypothesis in found)


def test_damaged_models_and_impossible_prefixes_are_told():
    with pytest.raises(ModelError, match=r"The model's logits for token 3 are not finite"):
        run(Broken(float("nan")), sentences([3]), replace(SAMPLE, min_length=5), n_best=2)
    with pytest.raises(ModelError) as error:
        run(Broken(float("-inf"), at=1), sentences([3]), SAMPLE, prefix=[[5]])
    assert str(error.value) == "The model gives zero probability to every allowed translation of sentence 1."


def test_the_nucleus_is_the_smallest_set_that_reaches_p():
    p = torch.tensor([[0.5, 0.3, 0.15, 0.05], [0.97, 0.01, 0.01, 0.01]], dtype=torch.float64)
    for top_p, sizes in (
        (1e-9, (1, 1)),
        (0.49, (1, 1)),
        (0.51, (2, 1)),
        (0.81, (3, 1)),
        (0.975, (4, 2)),
        (1.0, (4, 4)),
    ):
        assert tuple(nucleus(p, top_p).sum(dim=1).tolist()) == sizes, top_p


@pytest.mark.parametrize("changes", [{}, {"top_p": 0.99}, {"top_k": 5}])
def test_what_is_impossible_is_not_drawn_by_any_number(changes):
    """The least and the greatest number there are, where the first and the last token may not be written."""
    possible = torch.tensor([[[float("-inf"), -3.0, float("-inf"), -0.1, float("-inf")]]]).expand(2, 1, 5)
    choose = Draw(torch.tensor([[0.0], [1 - 2.0**-52]], dtype=torch.float64), replace(SAMPLE, **changes))
    tokens, parents, _ = choose(torch.zeros(2, 1), possible, 1, torch.arange(2))
    assert sorted(tokens.flatten().tolist()) == [1, 3]
    assert parents.tolist() == [[0], [0]]


def test_numbers_are_uniform_below_one_and_unlike_each_other():
    numbers = uniform(seed=1, keys=range(40), count=7, steps=97)
    assert numbers.shape == (280, 97)
    assert 0 <= numbers.min() < numbers.max() < 1
    assert len(np.unique(numbers)) == numbers.size
    seen = np.histogram(numbers, bins=50, range=(0, 1))[0]
    assert ((seen - numbers.size / 50) ** 2 / (numbers.size / 50)).sum() < 49 + 4 * 98**0.5
    # Neighbours in any direction have nothing to do with each other.
    centred = numbers - 0.5
    for a, b in ((centred[1:], centred[:-1]), (centred[:, 1:], centred[:, :-1]), (centred[7:], centred[:-7])):
        assert abs((a * b).mean() * 12) < 4 / np.sqrt(a.size)
    np.testing.assert_array_equal(uniform(1, range(40), 3, 5), numbers.reshape(40, 7, 97)[:, :3, :5].reshape(120, 5))
    assert not np.isin(uniform(2, range(40), 7, 97), numbers).any()
    assert uniform(-5, [2**70], 1, 1).shape == (1, 1)


def test_texts_are_drawn_alike_in_any_company():
    translator = make(options=DecodingConfig(method="sample", max_length=7))
    together = translator.translate(TEXTS, n_best=9, batch_size=3)
    for text, found in zip(TEXTS, together, strict=True):
        (alone,) = translator.translate([text], n_best=2)
        same(found, alone)
        if text.strip():
            assert len(found.n_best) == 8  # more than FEW: a batch of three holds two sentences then
            same(found.n_best[0], alone.n_best[0])
    other = translator.translate(TEXTS, options=replace(translator.options, seed=7))
    assert [t.text for t in other] != [t.text for t in together]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "bem"}, "No decoding method named 'bem'. Did you mean 'beam'? (regard list methods shows all)"),
        (
            {"temperature": 0.0},
            "decoding.temperature is 0.0; it must be above 0 and finite "
            "(for the most probable tokens alone, set decoding.top_k=1).",
        ),
        (
            {"temperature": float("nan")},
            "decoding.temperature is nan; it must be above 0 and finite "
            "(for the most probable tokens alone, set decoding.top_k=1).",
        ),
        ({"top_k": -1}, "decoding.top_k is -1; it must be at least 0 (0 for all tokens)."),
        ({"top_p": 0.0}, "decoding.top_p is 0.0; it must be above 0 and at most 1 (1 for all tokens)."),
        ({"top_p": 1.5}, "decoding.top_p is 1.5; it must be above 0 and at most 1 (1 for all tokens)."),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        run(Oracle(size=6), sentences([3]), replace(SAMPLE, **changes))
    assert str(error.value) == message
