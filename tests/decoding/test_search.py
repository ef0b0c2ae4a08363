"""The laws of search, against a version that can be read in one go and decoders that know every prefix apart."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.decoding.search import search
from regard.decoding.search_loop import best
from regard.decoding.top_k import top_k_logits
from regard.errors import ConfigError, ModelError
from regard.models.protocol import Step

from . import naive
from .toy_decoders import BOS, EOS, Oracle, only, pick, reread, sentences

LENGTHS = (3, 7, 2, 5)
BANNED = (0, 2)


def run(decoder, encoded, options, **rest):
    return search(decoder, encoded, options, bos=BOS, eos=EOS, **{"banned": BANNED, **rest})


def assert_close(found, expected):
    """Equal but for the rounding of single precision, also where plain floats are compared."""
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [7, 33, 8001])
def test_of_equal_values_the_largest_one_is_the_first(size):
    """Greedy search has a rule for ties, which the compiled library and the kernels follow too."""
    values = torch.randint(3, (11, size), generator=torch.Generator().manual_seed(size)).float()
    values[4] = float("-inf")
    expected = [row.index(max(row)) for row in values.tolist()]
    assert best(values, 1)[1][:, 0].tolist() == expected
    assert best(values, 1)[0][:, 0].tolist() == values.amax(dim=1).tolist()
    found = top_k_logits(values, torch.zeros(size, dtype=torch.bool), 1)
    assert found.words[:, 0].tolist() == expected


some_options = st.builds(
    DecodingConfig,
    beam=st.integers(1, 7),
    length_penalty=st.sampled_from([0.0, 0.6, 1.0, 2.0, -0.5]),
    coverage_penalty=st.sampled_from([0.0, 0.2, 1.0]),
    min_length=st.integers(0, 4),
    max_length=st.sampled_from([0, 5, 9]),
)
# Examples are the same every time: of two hypotheses that are as good as tied, rounding may choose either.
models = st.builds(Oracle, size=st.integers(5, 13), seed=st.integers(0, 50), sharpness=st.sampled_from([0.5, 2.0, 4.0]))


@given(models, some_options, st.data())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_it_finds_what_the_naive_search_finds(decoder, options, data):
    n_best = data.draw(st.integers(1, options.beam))
    prefixes = st.lists(st.integers(4, decoder.size - 1), max_size=4)
    prefix = data.draw(st.lists(prefixes, min_size=len(LENGTHS), max_size=len(LENGTHS)))
    encoded = sentences(LENGTHS)
    found = run(decoder, encoded, options, n_best=n_best, prefix=prefix)
    for number, hypotheses in enumerate(found):
        alone = only(encoded, number)
        naive.close(hypotheses, naive.beam_search(decoder, alone, options, n_best, BANNED, prefix[number]))


@given(models, some_options)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_beam_one_is_greedy(decoder, options):
    options = DecodingConfig(beam=1, length_penalty=options.length_penalty, max_length=options.max_length)
    encoded = sentences(LENGTHS)
    for number, (hypothesis,) in enumerate(run(decoder, encoded, options)):
        assert hypothesis.tokens == naive.greedy_search(decoder, only(encoded, number), options, BANNED)


@pytest.mark.parametrize("beta", [0.0, 0.5])
@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.5])
@pytest.mark.parametrize("seed", range(3))
def test_an_exhaustive_beam_equals_brute_force(seed, alpha, beta):
    decoder = Oracle(size=6, seed=seed)
    options = DecodingConfig(beam=300, length_penalty=alpha, coverage_penalty=beta, max_length=4)
    encoded = sentences(LENGTHS)
    for number, found in enumerate(run(decoder, encoded, options, n_best=20)):
        naive.close(found, naive.brute_force(decoder, only(encoded, number), options, BANNED)[:20])


@given(models, some_options)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_score_tokens_and_attention_are_those_of_the_hypothesis_itself(decoder, options):
    encoded = sentences(LENGTHS)
    for number, found in enumerate(run(decoder, encoded, options, n_best=options.beam, candidates=3)):
        alone = only(encoded, number)
        for hypothesis in found:
            log_probs, every, weights = reread(decoder, alone, hypothesis.tokens)
            assert_close(hypothesis.log_probs, log_probs)
            assert_close(hypothesis.weights, weights)
            expected = naive.score(decoder, alone, hypothesis.tokens, options)
            assert hypothesis.score == pytest.approx(expected, rel=1e-5, abs=1e-5)
            for step, row in zip(hypothesis.candidates, every, strict=True):
                assert [token for token, _ in step] == row.argsort(descending=True)[:3].tolist()
                assert_close([p for _, p in step], [float(row[token].exp()) for token, _ in step])


@given(models, some_options, st.permutations(range(len(LENGTHS))), st.integers(0, 3))
@settings(max_examples=15, deadline=None, derandomize=True)
def test_batch_mates_order_and_padding_change_nothing(decoder, options, order, padding):
    encoded = sentences(LENGTHS, padding=padding)
    shuffled = pick(encoded, list(order))
    together = run(decoder, shuffled, options, n_best=options.beam)
    for number, found in zip(order, together, strict=True):
        (alone,) = run(decoder, only(encoded, number), options, n_best=options.beam)
        assert [h.tokens for h in found] == [h.tokens for h in alone]
        assert_close([h.score for h in found], [h.score for h in alone])
        for one, other in zip(found, alone, strict=True):
            assert_close(one.weights, other.weights)


@given(models, some_options, st.data())
@settings(max_examples=20, deadline=None, derandomize=True)
def test_n_best_are_sorted_distinct_within_the_lengths_and_start_as_they_must(decoder, options, data):
    prefix = [data.draw(st.lists(st.integers(0, decoder.size - 1).filter(lambda t: t != EOS), max_size=4))] * 4
    every = run(decoder, sentences(LENGTHS), options, n_best=options.beam, prefix=prefix)
    for source, found in zip(LENGTHS, every, strict=True):
        assert len({tuple(h.tokens) for h in found}) == len(found) >= 1
        ranks = [(h.tokens[-1] == EOS, h.score) for h in found]
        assert ranks == sorted(ranks, reverse=True)
        longest = options.max_length or max(2 * source + 10, len(prefix[0]) + 10)
        for hypothesis in found:
            assert EOS not in hypothesis.tokens[:-1]
            words = [token for token in hypothesis.tokens if token != EOS]
            assert words[: len(prefix[0])] == prefix[0]
            assert not set(BANNED) & set(words[len(prefix[0]) :])
            assert options.min_length <= len(words) <= len(hypothesis.tokens) <= longest
            assert hypothesis.tokens[-1] == EOS or len(hypothesis.tokens) == longest


class Countdown(Oracle):
    """Writes token 4 as often as the source is long, then the end mark, with certainty."""

    def step(self, token, state, look=True):
        step = super().step(token, state)
        left = state.mask.sum(dim=1) - state.mark
        sure = torch.where(left > 0, 4, EOS)
        logits = torch.nn.functional.one_hot(sure, self.size) * 50.0
        return Step(logits, type(state)(state.mark + 1, state.mask), step.weights)

    def start(self, encoded):
        return type(super().start(encoded))(torch.zeros(len(encoded.mask), dtype=torch.long), encoded.mask)


@pytest.mark.parametrize("beam", [1, 4])
def test_sentences_leave_the_batch_when_they_are_done(beam):
    decoder = Countdown(size=6)
    found = run(decoder, sentences(LENGTHS), DecodingConfig(beam=beam))
    assert [h.tokens for (h,) in found] == [[4] * length + [EOS] for length in LENGTHS]
    # A source of n words takes n + 1 steps: the rows of step t are those of the sources with at least t - 1 words.
    width = [1, *[min(beam, 4)] * 7]
    assert decoder.rows == [sum(n + 1 >= t for n in LENGTHS) * width[t - 1] for t in range(1, 9)]


def test_a_long_hypothesis_that_wins_is_waited_for():
    """Enough are finished long before the best one is: the number of finished hypotheses is no reason to stop."""

    class Patience(Countdown):
        def step(self, token, state, look=True):
            logits = torch.full((len(token), self.size), -9.0)
            logits[:, EOS], logits[:, 4] = 0.0, 0.2
            return Step(logits, state, super().step(token, state).weights)

    encoded, options = sentences([5]), DecodingConfig(beam=2, length_penalty=2.0)
    (found,) = run(Patience(size=6), encoded, options, n_best=2)
    assert found[0].tokens == [4] * 19 + [EOS]
    naive.close(found, naive.beam_search(Patience(size=6), encoded, options, 2, BANNED))


def test_without_attention_the_weights_have_no_layers():
    (found,) = run(Oracle(size=7, layers=0, heads=3), sentences([4], padding=2), DecodingConfig(beam=3))
    assert found[0].weights.shape == (len(found[0].tokens), 0, 3, 4)


def test_what_ends_without_an_end_mark_is_ranked_by_the_same_rule():
    decoder, options = Oracle(size=7), DecodingConfig(beam=4, max_length=3, min_length=3)
    for number, found in enumerate(run(decoder, sentences(LENGTHS), options, n_best=4)):
        assert len(found) == 4
        for hypothesis in found:
            assert len(hypothesis.tokens) == 3
            assert EOS not in hypothesis.tokens
            expected = naive.score(decoder, only(sentences(LENGTHS), number), hypothesis.tokens, options)
            assert hypothesis.score == pytest.approx(expected)


def test_a_beam_wider_than_the_vocabulary_finds_what_there_is():
    decoder, options = Oracle(size=5), DecodingConfig(beam=50, max_length=1)
    (found,) = run(decoder, sentences([3]), options, n_best=50)
    assert sorted(h.tokens for h in found) == [[1], [3], [4]]


def test_no_sentences_give_no_hypotheses():
    assert run(Oracle(size=5), pick(sentences([1]), []), DecodingConfig()) == []


def test_half_precision_is_normalised_in_single():
    class Half(Oracle):
        def step(self, token, state, look=True):
            step = super().step(token, state)
            return Step(step.logits.bfloat16(), step.state, step.weights.bfloat16())

    (found,) = run(Half(size=7), sentences([3]), DecodingConfig(beam=3))
    assert found[0].weights.dtype == torch.float32
    assert found[0].log_probs == pytest.approx(reread(Half(size=7), sentences([3]), found[0].tokens)[0], abs=1e-6)


class Broken(Oracle):
    def __init__(self, value, at=3):
        super().__init__(size=7)
        self.value, self.at = value, at

    def step(self, token, state, look=True):
        step = super().step(token, state)
        if len(self.rows) == self.at:
            step.logits[0, 5] = self.value
        return step


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_none_are_an_error(value, beam):
    with pytest.raises(ModelError) as error:
        run(Broken(value), sentences([3]), DecodingConfig(beam=beam, min_length=5))
    assert str(error.value) == (
        "The model's logits for token 3 are not finite (NaN or infinity): "
        "its weights are damaged, or its training diverged."
    )


def test_a_token_the_model_rules_out_is_not_an_error_until_it_is_forced():
    assert run(Broken(float("-inf"), at=1), sentences([3]), DecodingConfig(beam=2))
    with pytest.raises(ModelError) as error:
        run(Broken(float("-inf"), at=1), sentences([3]), DecodingConfig(beam=2), prefix=[[5]])
    assert str(error.value) == "The model gives zero probability to every allowed translation of sentence 1."


@pytest.mark.parametrize(
    ("options", "rest", "message"),
    [
        ({"beam": 0}, {}, "decoding.beam is 0; it must be at least 1 (1 is greedy search)."),
        ({}, {"n_best": 0}, "n_best is 0; it must be at least 1."),
        (
            {"beam": 4},
            {"n_best": 5},
            "n_best is 5 but decoding.beam is 4: beam search returns at most as many hypotheses as its beam has. Set "
            "the beam to 5 or more.",
        ),
        ({}, {"candidates": -1}, "candidates is -1; it must be at least 0 (0 for none)."),
        (
            {"length_penalty": float("nan")},
            {},
            "decoding.length_penalty is nan; it must be a finite number.",
        ),
        ({"coverage_penalty": -0.5}, {}, "decoding.coverage_penalty is -0.5; it must be at least 0 and finite."),
        ({"min_length": -1}, {}, "decoding.min_length is -1; it must be at least 0."),
        ({"max_length": -2}, {}, "decoding.max_length is -2; it must be at least 0."),
        (
            {"shortlist": 65},
            {},
            "decoding.shortlist is 65; it must be from 0 (for all words) to 64, as many as training keeps for each "
            "source word.",
        ),
        (
            {"min_length": 8, "max_length": 5},
            {},
            "decoding.min_length is 8 but decoding.max_length is 5: the fewest tokens cannot be more than the most.",
        ),
        ({}, {"prefix": [[4], [4]]}, "There are 1 sentences but 2 prefixes: give one for each."),
        (
            {},
            {"prefix": [[4, EOS]]},
            "A prefix contains the end token; leave it out, so that there is something to search.",
        ),
        (
            {"max_length": 2},
            {"prefix": [[4, 4, 4]]},
            "A prefix has 3 tokens but decoding.max_length is 2: set it to 3 or more.",
        ),
        ({}, {"prefix": [[9]]}, "A prefix has token 9, but the vocabulary has only 6 tokens."),
        (
            {},
            {"banned": range(6)},
            "All 6 tokens of the vocabulary are banned, so nothing can be generated.",
        ),
    ],
)
def test_what_cannot_be_searched_is_refused(options, rest, message):
    with pytest.raises(ConfigError) as error:
        run(Oracle(size=6), sentences([3]), DecodingConfig(**options), **rest)
    assert str(error.value) == message


def test_coverage_needs_attention():
    with pytest.raises(ConfigError) as error:
        run(Oracle(size=6, layers=0), sentences([3]), DecodingConfig(coverage_penalty=0.2))
    assert str(error.value) == (
        "decoding.coverage_penalty needs a model with attention, but this one has none: set it to 0."
    )
