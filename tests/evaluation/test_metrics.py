"""Numbers worked by hand, numbers of sacreBLEU called directly, and laws."""

import functools
import math
from dataclasses import replace

import numpy as np
import pytest
import sacrebleu
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.pair import Alignment
from regard.errors import ConfigError, DataError, DisplayError
from regard.evaluation.alignment_error_rate import Reading, alignment_error_rate, links
from regard.evaluation.bleu_chrf import bleu, bleu_by_length, bleu_lowercase, bleu_pretokenised, chrf
from regard.evaluation.error_rates import distance, error_rates, exact_match
from regard.tasks.captioning.pointing_game import ScenePointing

from .traces import trace_of

REFERENCES = ["The red dress is old.", "He sees me, and I see him.", "A cat sat on the mat today."]
HYPOTHESES = ["The red dress is old.", "he sees me and I see them.", "A cat sat on a mat today ."]


def test_scores_are_sacrebleus_and_carry_its_signature():
    direct = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES])
    assert bleu(HYPOTHESES, REFERENCES).value == direct.score
    assert bleu(HYPOTHESES, REFERENCES).made_by.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert bleu(HYPOTHESES, REFERENCES).count == 3
    lower = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True)
    assert bleu_lowercase(HYPOTHESES, REFERENCES).value == lower.score != direct.score
    assert bleu_lowercase(HYPOTHESES, REFERENCES).made_by.startswith("nrefs:1|case:lc|eff:no|tok:13a|")
    split = sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES], lowercase=True, tokenize="none", force=True)
    assert bleu_pretokenised(HYPOTHESES, REFERENCES).value == split.score != lower.score
    assert bleu_pretokenised(HYPOTHESES, REFERENCES).made_by.startswith("nrefs:1|case:lc|eff:no|tok:none|")
    assert chrf(HYPOTHESES, REFERENCES).value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score
    assert chrf(HYPOTHESES, REFERENCES).made_by.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|")


@pytest.mark.parametrize("metric", [bleu, bleu_lowercase, bleu_pretokenised, chrf, exact_match])
def test_nothing_cannot_be_scored(metric):
    with pytest.raises(DataError) as error:
        metric([], [])
    assert str(error.value) == "There are no hypotheses, so there is nothing to score."
    with pytest.raises(DataError) as error:
        metric(["a"], ["a", "b"])
    assert str(error.value) == "There are 1 hypotheses but 2 references: they must pair line by line."


@given(st.lists(st.integers(0, 70), min_size=1, max_size=12), st.sets(st.integers(1, 60), max_size=5))
@settings(deadline=None)
def test_every_sentence_is_in_exactly_one_bin(lengths, edges):
    sources = [" ".join(["w"] * length) for length in lengths]
    bins = bleu_by_length(sources, ["a b c d"] * len(sources), ["a b c d"] * len(sources), sorted(edges))
    assert sum(entry.count for entry in bins) == len(sources)
    assert len(bins) == len(edges) + 1
    for entry in bins:
        last = math.inf if entry.last is None else entry.last
        inside = [n for n in lengths if entry.first <= max(n, 1) <= last]
        assert entry.count == len(inside)
        assert entry.bleu == (pytest.approx(100) if inside else None)


def test_a_bin_has_the_bleu_of_its_own_sentences():
    sources = ["one two", "one two three four five", "one two three four five six"]
    short, long = bleu_by_length(sources, HYPOTHESES, REFERENCES, edges=[4])
    assert (short.label, long.label) == ("1–4", "5+")
    assert short.bleu == sacrebleu.corpus_bleu(HYPOTHESES[:1], [REFERENCES[:1]]).score
    assert long.bleu == sacrebleu.corpus_bleu(HYPOTHESES[1:], [REFERENCES[1:]]).score


def test_edges_that_do_not_rise_are_refused():
    with pytest.raises(DataError) as error:
        bleu_by_length(["a"], ["a"], ["a"], edges=[20, 10])
    assert str(error.value) == "The edges of length bins must rise from 1 or more, got [20, 10]."


def naive_distance(one, other):
    """Levenshtein's recursion as it is defined."""

    @functools.cache
    def between(i, j):
        if not i or not j:
            return i + j
        if one[i - 1] == other[j - 1]:
            return between(i - 1, j - 1)
        return 1 + min(between(i - 1, j), between(i, j - 1), between(i - 1, j - 1))

    return between(len(one), len(other))


words = st.lists(st.sampled_from("abcd"), max_size=8)


@given(words, words)
@settings(deadline=None)
def test_distance_is_the_recursions(one, other):
    assert distance(one, other) == naive_distance(one, other)


@given(words, words, words)
@settings(deadline=None)
def test_distance_is_a_metric(a, b, c):
    assert (distance(a, b) == 0) == (a == b)
    assert distance(a, b) == distance(b, a)
    assert distance(a, c) <= distance(a, b) + distance(b, c)


def test_error_rates_by_hand():
    written = {"read": "R EH D", "tomato": "T AH M EY T OW", "cat": "K AE D"}
    references = {"read": ["R IY D", "R EH D"], "tomato": ["T AH M AA T OW", "T AH M EY T OW Z"], "cat": ["K AE T"]}
    tokens, sequences = error_rates(written, references)
    # read is met; tomato is one edit from both, and the longer one counts; cat has one wrong of three.
    assert tokens.value == 2 / (3 + 7 + 3)
    assert tokens.count == 13
    assert sequences.value == 2 / 3
    assert (tokens.best, sequences.best) == ("low", "low")


@given(st.dictionaries(st.text(max_size=3), words.filter(bool), min_size=1, max_size=5))
@settings(deadline=None)
def test_what_is_right_has_no_errors(right):
    written = {source: " ".join(tokens) for source, tokens in right.items()}
    tokens, sequences = error_rates(written, {source: ["x x x", text] for source, text in written.items()})
    assert (tokens.value, sequences.value) == (0, 0)


def test_rates_over_nothing_are_refused():
    with pytest.raises(DataError) as error:
        error_rates({}, {})
    assert str(error.value) == "There are no hypotheses, so there is nothing to score."
    with pytest.raises(DataError) as error:
        error_rates({"a": "b"}, {"a": [" "]})
    assert str(error.value) == "The references have no tokens, so there is no token error rate."


def test_exact_match_is_of_whole_lines():
    assert exact_match(["a b", "a b ", "A b", "a  b"], ["a b"] * 4).value == 0.5


def gold(sure, possible=()):
    return Alignment(frozenset(sure), frozenset(possible))


def test_alignment_error_rate_by_hand():
    found = frozenset({(0, 0), (1, 2), (2, 1), (3, 3)})
    # Of four links two are sure and three possible; there are three sure ones.
    alignment = gold({(0, 0), (2, 1), (1, 1)}, {(1, 2)})
    score = alignment_error_rate([(found, alignment)])
    assert score.value == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert (score.count, score.best) == (1, "low")


def test_alignment_error_rate_adds_up_counts_not_rates():
    perfect, wrong = (frozenset({(0, 0)}), gold({(0, 0)})), (frozenset({(0, 1)}), gold({(0, 0), (1, 1), (2, 2)}))
    assert alignment_error_rate([perfect, wrong]).value == pytest.approx(1 - 2 / 6)


pairs_of_words = st.frozensets(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=8)


@given(pairs_of_words.filter(bool), pairs_of_words, pairs_of_words)
@settings(deadline=None)
def test_laws_of_the_alignment_error_rate(sure, possible, found):
    alignment = gold(sure, possible)
    assert alignment.sure <= alignment.possible
    assert alignment_error_rate([(sure, alignment)]).value == 0
    # Links that may be there never hurt.
    assert alignment_error_rate([(alignment.possible, alignment)]).value == pytest.approx(0)
    rate = alignment_error_rate([(found, alignment)]).value
    assert 0 <= rate <= 1
    assert (rate == 1) == (not found & alignment.possible)


def test_no_links_have_no_error_rate():
    for nothing in ([], [(frozenset(), gold(()))]):
        with pytest.raises(DataError) as error:
            alignment_error_rate(nothing)
        assert str(error.value) == "There are no links, neither found nor sure, so there is no alignment error rate."


def test_links_are_of_words_merged_from_pieces():
    trace = trace_of(
        # ▁the  ▁dr  ess  </s>
        [
            [0.40, 0.30, 0.25, 0.05],  # ▁ro: the two pieces of "dress" together outweigh "the"
            [0.45, 0.30, 0.25, 0.00],  # be
            [0.00, 0.00, 0.00, 1.00],  # ▁x: looked at no word at all
            [0.30, 0.10, 0.10, 0.50],  # ▁la: most on the end mark, which is no word
            [0.25, 0.25, 0.25, 0.25],  # </s>
        ],
        source_words=(0, 1, 1, -1),
        target_words=(0, 0, 1, 2, -1),
    )
    assert links(trace) == {(1, 0), (0, 2)}


def test_a_trace_of_nothing_has_no_links():
    assert links(trace_of([[1.0]], source_words=(-1,), target_words=(-1,))) == frozenset()


def test_links_of_one_layer_and_head():
    eye = np.eye(3, dtype=np.float32)
    weights = np.stack([eye, eye[[1, 2, 0]], eye[[2, 0, 1]], eye[::-1]]).reshape(2, 2, 3, 3)
    trace = replace(
        trace_of(np.zeros((3, 3)), source_words=(0, 1, 2), target_words=(0, 1, 2)),
        weights=weights * np.array([5, 2, 3, 1], np.float32).reshape(2, 2, 1, 1) / 11,
    )
    read = {(n, m): links(trace, Reading(layer=n, head=m)) for n in (0, 1) for m in (0, 1)}
    assert read[0, 0] == {(0, 0), (1, 1), (2, 2)}
    assert read[0, 1] == {(1, 0), (2, 1), (0, 2)}
    assert read[1, 0] == links(trace, Reading(layer=-1)) == {(2, 0), (0, 1), (1, 2)}
    assert read[1, 1] == {(2, 0), (1, 1), (0, 2)}
    assert links(trace, Reading(head=0)) == read[0, 0]
    with pytest.raises(DisplayError) as error:
        links(trace, Reading(layer=2))
    assert str(error.value) == "There is no layer 2: this model has 2, counted from 0."


def test_shifted_links_are_those_of_the_step_that_reads_the_word():
    trace = trace_of(
        [
            [0.9, 0.1, 0.0],  # writes word 0
            [0.1, 0.8, 0.1],  # reads it, and writes word 1
            [0.2, 0.1, 0.7],  # reads it, and writes the end mark
        ],
        source_words=(0, 1, 2),
        target_words=(0, 1, -1),
    )
    assert links(trace) == {(0, 0), (1, 1)}
    assert links(trace, Reading(shift=True)) == {(1, 0), (2, 1)}


def test_shifted_links_of_a_target_that_was_cut_off():
    trace = trace_of([[1.0, 0.0], [0.0, 1.0]], source_words=(0, 1), target_words=(0, 1))
    assert links(trace, Reading(shift=True)) == {(1, 0), (1, 1)}


def test_a_reading_says_how():
    assert Reading().words() == (
        "source word with the most attention from each target word, teacher forcing on the reference, subwords merged"
    )
    assert Reading(3, 0, shift=True).words(both=True) == (
        "source word with the most attention from each target word, layer 3, head 0, attention of the next step, "
        "both directions merged by grow-diag-final-and, teacher forcing on the reference, subwords merged"
    )

    assert Reading(posterior=True, head=1).words() == (
        "most probable source word of each target word (posterior), head 1, teacher forcing on the "
        "reference, subwords merged"
    )


def test_several_references_are_sacrebleus():
    references = [("The red dress is old.", "The dress is red."), ("He sees me.",), ("A cat sat on the mat today.",)]
    columns = [[right[0] for right in references], [references[0][1], None, None]]
    assert bleu(HYPOTHESES, references).value == sacrebleu.corpus_bleu(HYPOTHESES, columns).score
    assert chrf(HYPOTHESES, references).value == sacrebleu.corpus_chrf(HYPOTHESES, columns).score
    assert bleu(HYPOTHESES, references).made_by.startswith("nrefs:var|")
    one = [(right,) for right in REFERENCES]
    assert bleu(HYPOTHESES, one) == bleu(HYPOTHESES, REFERENCES)
    assert bleu_by_length(HYPOTHESES, HYPOTHESES, one) == bleu_by_length(HYPOTHESES, HYPOTHESES, REFERENCES)


def test_exact_match_of_any_reference():
    assert exact_match(["a", "b", "c"], [("x", "a "), ("b",), ("x", "y")]).value == pytest.approx(2 / 3)


def test_a_word_is_read_off_in_one_way():
    with pytest.raises(ConfigError) as error:
        Reading(shift=True, posterior=True)
    assert "give one" in str(error.value)
    with pytest.raises(ConfigError) as error:
        ScenePointing(Reading(posterior=True))
    assert str(error.value) == (
        "The posterior (where a word came from) is for models that read texts, not for captioners."
    )


def test_texts_that_are_tokenised_are_scored_without_a_word(caplog):
    """sacreBLEU warns of a hundred lines that end in " .", which validation would repeat again and again."""
    lines = [f"the answer is {number} ." for number in range(120)]
    assert [score(lines, lines).value for score in (bleu, bleu_lowercase, bleu_pretokenised)] == pytest.approx(
        [100] * 3
    )
    bleu_by_length(lines, lines, lines)
    assert not caplog.records
