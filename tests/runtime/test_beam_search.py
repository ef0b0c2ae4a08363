"""The search with NumPy finds what the search with torch finds: the same rules, held against each other."""

from dataclasses import asdict, fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.decoding.search import search as search_with_torch
from regard.errors import ConfigError, ModelError
from regard.runtime.beam_search import Scored, best, search
from regard.runtime.search_options import SearchOptions
from regard.runtime.token_limits import TokenLimits, Vocabulary

from ..decoding.toy_decoders import BOS, EOS, Oracle, only, sentences

ONE = DecodingConfig(max_length=7)
VOCABULARY = Vocabulary(size=211, padding=0, start=BOS, end=EOS, banned=(), spare=10, longest=0, most=None)


class Steps:
    """A torch decoder as a step function; what is fixed moves only when a sentence leaves or gains slots."""

    def __init__(self, decoder):
        self.decoder, self.moves = decoder, []

    def step(self, tokens, state, look):
        taken = self.decoder.step(torch.from_numpy(tokens), state)
        log_probs = taken.logits.log_softmax(dim=-1).numpy()
        return Scored(log_probs, taken.weights.numpy() if look else None), taken.state

    def reorder(self, state, rows, within):
        self.moves.append(within)
        if within:  # then no row leaves its sentence
            assert len(rows) == len(state.mask)
            assert torch.equal(state.mask, state.mask[rows])
        return self.decoder.reorder(state, torch.from_numpy(rows))


def with_numpy(decoder, encoded, options, n_best, banned=(), prefix=None, look=True):
    mask = encoded.mask.numpy()
    prefix = [[] for _ in mask] if prefix is None else prefix
    own = SearchOptions(**{field.name: getattr(options, field.name) for field in fields(SearchOptions)})
    own.check(n_best)
    limits = TokenLimits.of(VOCABULARY, own, mask.sum(axis=1).tolist(), prefix, banned)
    with torch.inference_mode():
        return search(Steps(decoder), decoder.start(encoded), mask, limits, own, n_best, look)


def both(decoder, encoded, options, n_best=1, banned=(), prefix=None):
    right = search_with_torch(decoder, encoded, options, bos=BOS, eos=EOS, banned=banned, prefix=prefix, n_best=n_best)
    return with_numpy(decoder, encoded, options, n_best, banned, prefix), right


def assert_same(found, right):
    for ours, theirs in zip(found, right, strict=True):
        assert [one.tokens for one in ours] == [one.tokens for one in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5, rel=1e-5)
            np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)
            np.testing.assert_allclose(one.weights, other.weights.numpy(), atol=1e-6)


@settings(max_examples=150)
@given(data=st.data())
def test_both_searches_find_the_same(data):
    draw = data.draw
    size, beam = draw(st.sampled_from([5, 13, 211])), draw(st.integers(1, 7))
    decoder = Oracle(size, seed=draw(st.integers(0, 9)), sharpness=draw(st.sampled_from([0.3, 1.0, 4.0])))
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    options = DecodingConfig(
        beam=beam,
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.5, -1.0])),
        coverage_penalty=draw(st.sampled_from([0.0, 0.0, 0.4, 3.0])),
        patience=draw(st.sampled_from([0.0, 0.0, 0.5, 2.0])),
        min_length=draw(st.integers(0, 4)),
        max_length=draw(st.sampled_from([0, 5, 8])),
        max_ratio=draw(st.sampled_from([0.0, 0.5])),
    )
    words = st.sampled_from([token for token in range(size) if token != EOS])
    banned = draw(st.lists(words, max_size=2))
    prefix = [draw(st.lists(words, max_size=3)) for _ in lengths] if draw(st.booleans()) else None
    encoded = sentences(lengths, padding=draw(st.integers(0, 2)))
    assert_same(*both(decoder, encoded, options, draw(st.integers(1, beam)), banned, prefix))


@pytest.mark.parametrize("alpha", [2.5, -1.0])
def test_both_searches_stop_at_the_same_length(alpha):
    """Where a longer hypothesis may still win, the search goes on: that matters seldom, so many sentences are tried."""
    options = DecodingConfig(beam=2, length_penalty=alpha, max_length=12)
    for seed in range(4):
        assert_same(*both(Oracle(5, seed=seed, sharpness=2.0), sentences([2] * 60), options))


def test_batch_mates_change_nothing():
    decoder, encoded = Oracle(13), sentences([5, 1, 4, 2, 3], padding=2)
    options = replace(ONE, beam=3, coverage_penalty=0.5)
    together = with_numpy(decoder, encoded, options, 3)
    for number, own in enumerate(together):
        (alone,) = with_numpy(decoder, only(encoded, number), options, 3)
        assert [one.tokens for one in alone] == [one.tokens for one in own]
        for one, other in zip(alone, own, strict=True):
            np.testing.assert_array_equal(one.weights, other.weights)


def test_a_beam_of_one_is_greedy():
    decoder, encoded = Oracle(13), sentences([3, 2])
    for number, (best_of,) in enumerate(with_numpy(decoder, encoded, replace(ONE, beam=1), 1)):
        state, token, written = decoder.start(only(encoded, number)), BOS, []
        while token != EOS and len(written) < ONE.max_length:
            taken = decoder.step(torch.tensor([token]), state)
            state, token = taken.state, int(taken.logits[0].argmax())
            written.append(token)
        assert best_of.tokens == written


def test_what_does_not_change_is_moved_only_when_a_sentence_leaves_or_gains_slots():
    decoder, encoded = Oracle(13), sentences([3, 2, 4])
    steps = Steps(decoder)
    limits = TokenLimits(BOS, EOS, (), [[]] * 3, [6] * 3)
    with torch.inference_mode():
        search(steps, decoder.start(encoded), encoded.mask.numpy(), limits, SearchOptions(beam=4), n_best=4)
    assert not steps.moves[0]
    assert any(steps.moves)
    # A beam of one moves nothing before a sentence ends.
    steps = Steps(decoder)
    limits = TokenLimits(BOS, EOS, (EOS,), [[]] * 3, [6] * 3)
    with torch.inference_mode():
        search(steps, decoder.start(encoded), encoded.mask.numpy(), limits, SearchOptions(beam=1))
    assert steps.moves == []


@given(data=st.data())
def test_the_largest_of_many_are_found_as_by_sorting(data):
    width, count = data.draw(st.sampled_from([1, 7, 63, 64, 640, 1000, 4097])), data.draw(st.integers(1, 9))
    chance = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = chance.integers(0, data.draw(st.sampled_from([3, 50, 10**6])), (3, width)).astype(np.float32)
    values[chance.random(values.shape) < data.draw(st.sampled_from([0.0, 0.5, 1.0]))] = -np.inf
    order = np.argsort(-values, axis=1, kind="stable")[:, :count]
    found, places = best(values, count)
    np.testing.assert_array_equal(places, order)
    np.testing.assert_array_equal(found, np.take_along_axis(values, order, axis=1))


class Broken(Oracle):
    """Says what is no number from its third step on, or gives probability to nothing."""

    def __init__(self, wrong):
        super().__init__(13)
        self.wrong = wrong

    def step(self, token, state, look=True):
        taken = super().step(token, state, look)
        return taken if len(self.rows) < 3 else taken._replace(logits=torch.full_like(taken.logits, self.wrong))


def test_logits_that_are_no_numbers_are_told():
    said = r"^The model's logits for token 3 are not finite \(NaN or infinity\)"
    with pytest.raises(ModelError, match=said):
        with_numpy(Broken(float("nan")), sentences([3]), replace(ONE, beam=2, min_length=4), 1)
    with pytest.raises(ModelError, match=said):
        with_numpy(Broken(float("inf")), sentences([3]), replace(ONE, beam=2, min_length=4), 1)


def test_a_sentence_without_a_possible_translation_is_told():
    every = [token for token in range(13) if token != EOS]
    with pytest.raises(
        ModelError, match=r"^The model gives zero probability to every allowed translation of sentence 1"
    ):
        with_numpy(Oracle(13), sentences([3, 2]), replace(ONE, min_length=3), 1, banned=every)


class Blind(Oracle):
    """A decoder without attention."""

    def __init__(self):
        super().__init__(13, layers=0)


@pytest.mark.parametrize(
    ("options", "prefix", "said"),
    [
        ({"coverage_penalty": 0.3}, None, "needs a model with attention, but this one has none: set it to 0."),
        ({}, [[5, EOS]], "A prefix contains the end token; leave it out, so that there is something to search."),
        ({"max_length": 2}, [[5, 6, 7]], "A prefix has 3 tokens but decoding.max_length is 2: set it to 3 or more."),
        ({"method": "sample"}, None, "decoding.method is 'sample', but without torch there is only beam search: "),
        ({"keep": "x+"}, None, "decoding.keep is set, but terms can be kept only with torch: "),
        ({"beam": 0}, None, "decoding.beam is 0; it must be at least 1 (1 is greedy search)."),
        ({"beam": 2}, None, "n_best is 3 but decoding.beam is 2: "),
        ({"length_penalty": float("nan")}, None, "decoding.length_penalty is nan; it must be a finite number."),
        ({"patience": -1.0}, None, "decoding.patience is -1.0; it must be at least 0 and finite."),
        ({"min_length": 9}, None, "decoding.min_length is 9 but decoding.max_length is 7: "),
    ],
)
def test_what_cannot_be_searched_is_refused(options, prefix, said):
    with pytest.raises(ConfigError) as raised:
        with_numpy(Blind(), sentences([3]), replace(ONE, **options), 3, prefix=prefix)
    assert said in str(raised.value)


def test_settings_are_read_as_on_the_command_line():
    options = SearchOptions().changed(["decoding.beam=3", "length_penalty = 0.5", "replace_unknown=true", "keep=''"])
    assert options == SearchOptions(beam=3, length_penalty=0.5, replace_unknown=True)
    for wrong, said in {
        "baem=3": "'baem=3' is no setting of the search, written NAME=VALUE. Did you mean 'beam'?",
        "beam=x": "decoding.beam is 'x'; it must be a whole number.",
        "replace_unknown=1": "decoding.replace_unknown is '1'; it must be true or false.",
    }.items():
        with pytest.raises(ConfigError) as raised:
            SearchOptions().changed([wrong])
        assert str(raised.value) == said


def test_defaults_are_those_of_a_model_folder():
    assert SearchOptions.of(asdict(DecodingConfig())) == SearchOptions()
