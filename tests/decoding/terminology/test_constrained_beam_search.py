"""The laws of search for hypotheses that hold terms, against brute force and against search without terms."""

import itertools
import re

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from regard.config import DecodingConfig
from regard.data.tokenizers import Characters
from regard.decoding.search import search
from regard.decoding.terminology.constraint_state import Constraints
from regard.decoding.terminology.term_extraction import Terms
from regard.decoding.terminology.term_tokens import Spelling
from regard.errors import ConfigError

from .. import naive
from ..toy_decoders import BOS, EOS, Oracle, only, pick, sentences

LENGTHS = (3, 1, 4, 2)
BANNED = (0, 1, 2)
ALPHABET = " ab1<>"
SIZE = 4 + len(ALPHABET)
SPELLING = Spelling(Characters(ALPHABET))


def constraints(*terms):
    """Constraints that a source of these terms, a space between them, makes."""
    line = " ".join(terms)
    return Constraints(Terms(keep="|".join(map(re.escape, sorted(terms, key=len, reverse=True)))).of(line), SPELLING)


NOTHING = Constraints([], SPELLING)


def run(decoder, encoded, options, held, **rest):
    own = {"bos": BOS, "eos": EOS, "banned": BANNED, **rest}
    return search(decoder, encoded, options, constraints=held, **own)


def text_of(tokens):
    return SPELLING.tokenizer.decode(tokens)


def holds(text, term, times=1, letters="ab"):
    """Whether a term stands in a text as often as it must, told by a regular expression."""
    kind = next((own for own in (letters, "1") if term[0] in own), "")
    left = f"(?<![{kind}])" if kind else ""
    kind = next((own for own in (letters, "1") if term[-1] in own), "")
    right = f"(?![{kind}])" if kind else ""
    return len(re.findall(left + re.escape(term) + right, text)) >= times


some_terms = st.lists(st.sampled_from(["a", "ab", "1", "<a>", "<", "11", "b a", "1<"]), min_size=1, max_size=3)
some_options = st.builds(
    DecodingConfig,
    beam=st.integers(1, 6),
    length_penalty=st.sampled_from([0.0, 1.0, -0.5]),
    coverage_penalty=st.sampled_from([0.0, 0.3]),
    min_length=st.integers(0, 4),
    max_length=st.sampled_from([0, 14]),
    patience=st.sampled_from([0.0, 1.0]),
)
models = st.builds(Oracle, size=st.just(SIZE), seed=st.integers(0, 50), sharpness=st.sampled_from([0.5, 2.0, 4.0]))


def law(examples):
    """What fails is told as it is: to shrink it would take minutes."""
    generates = (Phase.explicit, Phase.generate)
    return settings(max_examples=examples, deadline=None, derandomize=True, phases=generates)


@given(models, some_options, st.lists(some_terms, min_size=4, max_size=4), st.data())
@law(20)
def test_every_hypothesis_holds_every_term_as_often_as_it_must(decoder, options, terms, data):
    encoded, n_best = sentences(LENGTHS), data.draw(st.integers(1, options.beam))
    every = run(decoder, encoded, options, [constraints(*own) for own in terms], n_best=n_best)
    for number, (found, own) in enumerate(zip(every, terms, strict=True)):
        assert found
        assert len({tuple(one.tokens) for one in found}) == len(found)
        for one in found:
            for term in own:
                assert holds(text_of(one.tokens), term, own.count(term)), (text_of(one.tokens), own)
            expected = naive.score(decoder, only(encoded, number), one.tokens, options)
            assert one.score == pytest.approx(expected, rel=1e-5, abs=1e-5)


@given(models, some_options, st.integers(1, 6))
@law(20)
def test_sentences_without_terms_are_searched_as_ever(decoder, options, n_best):
    encoded, n_best = sentences(LENGTHS), min(n_best, options.beam)
    plain = search(decoder, encoded, options, bos=BOS, eos=EOS, banned=BANNED, n_best=n_best)
    held = [NOTHING, constraints("<a>"), NOTHING, constraints("1")]
    found = run(decoder, encoded, options, held, n_best=n_best)
    for number in (0, 2):
        assert [one.tokens for one in found[number]] == [one.tokens for one in plain[number]]
        assert [one.score for one in found[number]] == pytest.approx([one.score for one in plain[number]], rel=1e-5)


@given(models, some_options)
@law(20)
def test_what_holds_the_terms_anyway_is_found_or_something_better(decoder, options):
    encoded = sentences(LENGTHS)
    plain = search(decoder, encoded, options, bos=BOS, eos=EOS, banned=BANNED)
    terms = []
    for (best,) in plain:
        words = [word for word in re.findall("[ab]+|1+|[<>]", text_of(best.tokens)) if best.tokens[-1] == EOS]
        terms.append(constraints(words[len(words) // 2]) if words else NOTHING)
    for (expected,), (found,) in zip(plain, run(decoder, encoded, options, terms), strict=True):
        assert found.tokens == expected.tokens or found.score >= expected.score - 1e-5


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@pytest.mark.parametrize("terms", [["a"], ["<"], ["a<"], ["a", "<"], ["<", "<"]])
def test_an_exhaustive_beam_equals_brute_force(terms, alpha):
    """Of all texts of three characters that hold the terms, the best ones are found."""
    decoder, options = Oracle(size=7, seed=3), DecodingConfig(beam=400, length_penalty=alpha, max_length=6)
    tokenizer, encoded = Characters(" a<"), sentences([4])
    line = Terms(keep="|".join(map(re.escape, terms))).of(" ".join(terms))
    held = Constraints(line, Spelling(tokenizer))
    (found,) = search(decoder, encoded, options, bos=BOS, eos=EOS, banned=BANNED, n_best=15, constraints=[held])
    every = [[*body, EOS] for n in range(6) for body in itertools.product((4, 5, 6), repeat=n)]
    every += [list(body) for body in itertools.product((4, 5, 6), repeat=6)]
    holding = [
        own for own in every if all(holds(tokenizer.decode(own), term, terms.count(term), "a") for term in terms)
    ]
    naive.close(found, naive.rank(decoder, encoded, options, holding)[:15])


@given(models, some_options, st.lists(some_terms, min_size=4, max_size=4), st.permutations(range(4)), st.integers(0, 3))
@law(10)
def test_batch_mates_order_and_padding_change_nothing(decoder, options, terms, order, padding):
    encoded = sentences(LENGTHS, padding=padding)
    together = run(
        decoder, pick(encoded, list(order)), options, [constraints(*terms[n]) for n in order], n_best=options.beam
    )
    for number, found in zip(order, together, strict=True):
        (alone,) = run(decoder, only(encoded, number), options, [constraints(*terms[number])], n_best=options.beam)
        assert [one.tokens for one in found] == [one.tokens for one in alone]
        for one, other in zip(found, alone, strict=True):
            torch.testing.assert_close(one.weights, other.weights, rtol=1e-5, atol=1e-5)


@given(models, some_options, some_terms, st.lists(st.integers(4, SIZE - 1), max_size=4))
@law(10)
def test_a_prefix_counts(decoder, options, terms, prefix):
    for one in run(decoder, sentences([3]), options, [constraints(*terms)], prefix=[prefix], n_best=options.beam)[0]:
        assert one.tokens[: len(prefix)] == prefix
        assert all(holds(text_of(one.tokens), term, terms.count(term)) for term in terms)


@pytest.mark.parametrize("beam", [1, 2, 5])
def test_there_is_room_for_many_terms_and_no_more_than_that(beam):
    terms = ["<a>", "1", "b", "<a>", "ab", "<<"]
    held = constraints(*terms)
    decoder = Oracle(size=SIZE, seed=1)
    (found,) = run(decoder, sentences([2]), DecodingConfig(beam=beam, max_length=held.total + 1), [held])
    text = text_of(found[0].tokens)
    assert all(holds(text, term, terms.count(term)) for term in terms)
    assert len(found[0].tokens) <= held.total + 1


def test_what_the_model_writes_by_itself_costs_nothing():
    """A term that stands there anyway need not be written again, however it is spelt."""
    held = constraints("ab", "ab")
    number = held.start
    needed = []
    for character in "ab<ab":
        number = held.next(number, SPELLING.tokenizer.encode(character)[0])
        needed.append(held.needed(number))
    assert held.total == 6  # each with the space before it
    assert needed[-1] == 0
    assert needed[1] == 3
    again = held.next(number, SPELLING.tokenizer.encode("a")[0])
    assert held.needed(again) > 0  # `aba` is another word


def test_terms_within_terms_need_their_own_place():
    held = constraints("1<1", "1")
    (demand, other) = held.demands
    assert (demand.times, other.times) == (1, 3)
    assert held.total == 4 + 2  # not 4 + 3 · 2


def test_banned_tokens_are_written_for_terms_alone():
    token = SPELLING.tokenizer.encode("<")[0]
    options, held = DecodingConfig(beam=4, length_penalty=0.0), [constraints("<a"), NOTHING, constraints("1")]
    every = run(Oracle(size=SIZE), sentences([3, 2, 4]), options, held, banned=(*BANNED, token), n_best=4)
    assert all("<a" in text_of(one.tokens) for one in every[0])
    assert not any("<" in text_of(one.tokens) for found in every[1:] for one in found)


def test_attention_and_candidates_are_those_of_the_hypothesis_itself():
    decoder, options = Oracle(size=SIZE, seed=4), DecodingConfig(beam=3)
    encoded = sentences(LENGTHS)
    every = run(decoder, encoded, options, [constraints("<a>", "1")] * 4, n_best=3, candidates=2)
    for number, found in enumerate(every):
        for one in found:
            log_probs, rows, weights = naive.reread(decoder, only(encoded, number), one.tokens)
            torch.testing.assert_close(one.weights, weights, rtol=1e-5, atol=1e-5)
            assert one.log_probs == pytest.approx(log_probs, rel=1e-5, abs=1e-5)
            for step, row in zip(one.candidates, rows, strict=True):
                assert [token for token, _ in step] == row.argsort(descending=True)[:2].tolist()


def test_too_little_room_is_told():
    with pytest.raises(ConfigError) as caught:
        run(Oracle(size=SIZE), sentences([3]), DecodingConfig(max_length=5), [constraints("<a>", "1")])
    assert str(caught.value) == (
        "What must occur in a translation ('<a>', '1') takes 7 tokens with the end token, but decoding.max_length is "
        "5: set it to 7 or more."
    )
    with pytest.raises(ConfigError) as caught:
        run(Oracle(size=SIZE), sentences([3]), DecodingConfig(max_length=7), [constraints("<a>", "1")], prefix=[[5, 6]])
    assert str(caught.value) == (
        "What must occur in a translation ('<a>', '1') takes 7 tokens with the end token after a prefix of 2, but "
        "decoding.max_length is 7: set it to 9 or more."
    )


def test_a_model_with_too_few_places_is_told():
    class Short(Oracle):
        @property
        def most(self):
            return 4

    with pytest.raises(ConfigError) as caught:
        run(Short(size=SIZE), sentences([3]), DecodingConfig(), [constraints("<a>")])
    assert str(caught.value) == (
        "What must occur in a translation ('<a>') takes 5 tokens with the end token, but the model has only 4 "
        "positions: translate the text in parts."
    )


@pytest.mark.parametrize("method", ["sample", "diverse", "mbr"])
def test_other_methods_do_not_know_terms(method):
    expected = (
        f"decoding.method is {method!r}, but only 'beam' supports terms that must be kept (decoding.keep, a glossary)."
    )
    with pytest.raises(ConfigError) as caught:
        run(Oracle(size=SIZE), sentences([3]), DecodingConfig(method=method), [constraints("<a>")])
    assert str(caught.value) == expected
    with pytest.raises(ConfigError) as caught:
        search(Oracle(size=SIZE), sentences([3]), DecodingConfig(method=method, keep="a"), bos=BOS, eos=EOS)
    assert str(caught.value) == expected
