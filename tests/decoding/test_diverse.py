"""Laws of diverse beam search: against the naive one, with one group, and with nothing to pay."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.decoding.search import search
from regard.errors import ConfigError

from . import naive
from .test_search import BANNED, LENGTHS, assert_close
from .toy_decoders import BOS, EOS, Oracle, only, pick, reread, sentences

models = st.builds(Oracle, size=st.integers(5, 13), seed=st.integers(0, 50), sharpness=st.sampled_from([0.5, 2.0, 4.0]))
some_options = st.builds(
    lambda groups, each, **rest: DecodingConfig(method="diverse", groups=groups, beam=groups * each, **rest),
    groups=st.integers(1, 4),
    each=st.integers(1, 3),
    diversity=st.sampled_from([0.0, 0.3, 1.0, 5.0]),
    length_penalty=st.sampled_from([0.0, 1.0]),
    coverage_penalty=st.sampled_from([0.0, 0.5]),
    min_length=st.integers(0, 2),
    max_length=st.sampled_from([4, 7]),
)


def run(decoder, encoded, options, **rest):
    return search(decoder, encoded, options, bos=BOS, eos=EOS, **{"banned": BANNED, **rest})


@given(models, some_options, st.data())
@settings(max_examples=15, deadline=None, derandomize=True)
def test_it_finds_what_the_naive_search_finds(decoder, options, data):
    n_best = data.draw(st.integers(1, options.beam))
    banned = data.draw(st.sampled_from([BANNED, ()]))
    prefix = [[], [4], [4, 4]]
    encoded = sentences((3, 7, 2))
    for number, found in enumerate(run(decoder, encoded, options, n_best=n_best, prefix=prefix, banned=banned)):
        alone = only(encoded, number)
        naive.close(found, naive.diverse_beam_search(decoder, alone, options, n_best, banned, prefix[number]))
        for hypothesis in found:
            log_probs, _, weights = reread(decoder, alone, hypothesis.tokens)
            assert_close(hypothesis.log_probs, log_probs)
            assert_close(hypothesis.weights, weights)


def results(every):
    return [[(h.tokens, h.score, h.log_probs) for h in found] for found in every]


@given(models, some_options)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_one_group_is_beam_search_to_the_last_bit(decoder, options):
    options = replace(options, groups=1)
    encoded = sentences(LENGTHS)
    diverse, plain = (
        run(decoder, encoded, replace(options, method=method), n_best=options.beam) for method in ("diverse", "beam")
    )
    assert results(diverse) == results(plain)
    for found, expected in zip(diverse, plain, strict=True):
        assert all(one.weights.equal(other.weights) for one, other in zip(found, expected, strict=True))


@given(models, some_options)
@settings(max_examples=10, deadline=None, derandomize=True)
def test_groups_that_pay_nothing_all_find_what_one_of_them_finds(decoder, options):
    options, encoded = replace(options, diversity=0.0), sentences(LENGTHS)
    each = options.beam // options.groups
    diverse = run(decoder, encoded, options, n_best=options.beam)
    plain = run(decoder, encoded, replace(options, method="beam", beam=each), n_best=each)
    for found, expected in zip(diverse, plain, strict=True):
        # Each group sets aside as many as are asked for in all: the best of these are what a lone one would set aside.
        assert [h.tokens for h in found[: len(expected)]] == [h.tokens for h in expected]
        assert_close([h.score for h in found[: len(expected)]], [h.score for h in expected])


def test_groups_of_one_that_pay_much_begin_with_different_words():
    """Groups of one that pay much never take the same token at the same step, as long as there are others."""
    decoder, encoded = Oracle(size=40, seed=2), sentences(LENGTHS)
    options = DecodingConfig(method="diverse", beam=5, diversity=50.0, min_length=3, max_length=6)
    for found in run(decoder, encoded, options, n_best=5):
        assert len({h.tokens[0] for h in found}) == len(found) == 5
    plain = run(decoder, encoded, replace(options, method="beam"), n_best=5)
    assert any(len({h.tokens[0] for h in found}) < 5 for found in plain)


def test_what_has_ended_costs_the_others_nothing():
    """A group that has written its end mark takes no more tokens; the others are as free as if it were not there."""

    class First(Oracle):
        def step(self, token, state, look=True):
            step = super().step(token, state)
            logits = torch.full((len(token), self.size), -20.0)
            at_start = (token == BOS)[:, None]
            first = torch.tensor([0.0, 0.0, 0.0, 2.0, 1.0, 0.0]).expand_as(logits)
            later = torch.tensor([1.1, 1.0, 0.9, -20.0, -20.0, -20.0]).expand_as(logits)
            return step._replace(logits=torch.where(at_start, first, later))

    options = DecodingConfig(method="diverse", beam=2, diversity=9.0, max_length=3, length_penalty=0.0)
    (found,) = run(First(size=6), sentences([3]), options, n_best=2, banned=())
    assert [h.tokens for h in found] == [[EOS], [4, 0, 0]]


def test_company_changes_nothing():
    decoder, encoded = Oracle(size=11, seed=5), sentences(LENGTHS, padding=1)
    options = DecodingConfig(method="diverse", beam=6, groups=3)
    together = run(decoder, encoded, options, n_best=6)
    for number, found in zip((3, 1), run(decoder, pick(encoded, [3, 1]), options, n_best=6), strict=True):
        assert [h.tokens for h in found] == [h.tokens for h in together[number]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"groups": -1}, "decoding.groups is -1; it must be at least 0 (0: one for each hypothesis)."),
        (
            {"groups": 3},
            "decoding.beam is 5, which does not divide into 3 groups (decoding.groups): use 3, or another number of "
            "groups.",
        ),
        (
            {"groups": 7},
            "decoding.beam is 5, which does not divide into 7 groups (decoding.groups): use 7, or another number of "
            "groups.",
        ),
        ({"diversity": -0.5}, "decoding.diversity is -0.5; it must be at least 0 and finite."),
        ({"diversity": float("inf")}, "decoding.diversity is inf; it must be at least 0 and finite."),
    ],
)
def test_what_cannot_be_searched_is_refused(changes, message):
    with pytest.raises(ConfigError) as error:
        run(Oracle(size=6), sentences([3]), DecodingConfig(method="diverse", beam=5, **changes))
    assert str(error.value) == message


def test_a_number_of_groups_is_no_matter_where_there_are_none():
    assert run(Oracle(size=6), sentences([3]), DecodingConfig(beam=5, groups=3))
