"""A corpus in numbers: exact on small ones, the same every time, in bounded time and memory."""

from dataclasses import astuple
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data import survey as module
from regard.data.pair import Pair
from regard.data.survey import Survey, SurveyedSide, frequent_words, survey

texts = st.text("ab c日\t😀", max_size=12) | st.text(max_size=9)
corpora = st.lists(st.builds(Pair, texts, texts), max_size=12)


def longest_common(one, other):
    """Count, by definition: the longest that is left of both when characters are taken out."""
    if not one or not other:
        return 0
    if one[-1] == other[-1]:
        return 1 + longest_common(one[:-1], other[:-1])
    return max(longest_common(one[:-1], other), longest_common(one, other[:-1]))


def test_every_number_of_a_small_corpus():
    verb = [Pair("gehen V PST", "ging"), Pair("gehen V PST", "gang"), Pair("sehen V PRS", "sehen V PRS")]
    found = survey([*verb, *[Pair("x V", "x")] * 5])
    source, target = found.source, found.target
    assert (found.pairs, found.sources, found.paired, found.shortest) == (8, 3, True, 3)
    assert found.ambiguous == pytest.approx(1 / 3)
    assert found.identical == pytest.approx(1 / 8)
    # g of ging; g, n of gang; all of sehen V PRS; x
    assert found.copied == pytest.approx((2 / 4 + 2 / 4 + 1 + 5) / 8)
    assert found.copied_words == pytest.approx((1 / 3) / 8)
    # x and V stand in the texts five times and more
    assert source == SurveyedSide(
        characters=pytest.approx((11 * 3 + 5 * 3) / 8),
        longest=11,
        words=pytest.approx((3 * 3 + 5 * 2) / 8),
        most_words=3,
        alphabet=len(set("gehenVPSTsRx")),
        types=6,
        frequent=2,
        spelled=pytest.approx(5 / 8),
        units=pytest.approx(((6 + 1 + 4) * 3 + 5 * 2) / 8),
        unspaced=False,
    )
    assert (target.longest, target.most_words, target.types, target.frequent) == (11, 3, 6, 1)
    assert target.spelled == pytest.approx(7 / 8)


def test_of_no_pairs_all_is_nothing():
    nothing = SurveyedSide(0.0, 0, 0.0, 0, 0, 0, 0, 0.0, 0.0, False)
    assert survey([]) == Survey(0, 0, 0.0, 0.0, 0.0, 0.0, 0, False, 0, nothing, nothing)


@pytest.mark.parametrize(
    ("text", "unspaced"),
    [
        ("これは本です", True),
        ("我喜欢 Python", True),
        ("ผมรักคุณ", True),
        ("한국어 문장", False),
        ("שלום עולם", False),
        ("a 日 word", False),
    ],
)
def test_scripts_without_spaces(text, unspaced):
    assert survey([Pair("a", text)]).target.unspaced is unspaced


@settings(max_examples=40)
@given(pairs=corpora)
def test_laws(pairs):
    found = survey(iter(pairs))
    assert found == survey(pairs)
    assert found.pairs == len(pairs)
    assert found.sources == len({pair.source for pair in pairs})
    assert found.paired == any(pair.source for pair in pairs)
    assert found.shortest == min((max(len(pair.source), len(pair.target)) for pair in pairs), default=0)
    shares = (found.ambiguous, found.identical, found.copied, found.copied_words, found.source.spelled)
    assert all(0 <= share <= 1 for share in shares)
    for name in ("source", "target"):
        side, own = getattr(found, name), [getattr(pair, name) for pair in pairs]
        assert side.longest == max(map(len, own), default=0) >= side.characters
        assert side.most_words == max((len(text.split()) for text in own), default=0) >= side.words
        assert side.alphabet == len({char for text in own for char in text if not char.isspace()})
        assert side.types == len({word for text in own for word in text.split()}) >= side.frequent
        assert side.words - 1e-9 <= side.units <= side.words + side.characters + 1e-9


@given(pairs=st.lists(st.builds(Pair, st.text("ab", max_size=7), st.text("ab", max_size=7)), min_size=1, max_size=5))
def test_what_is_copied_is_the_longest_common_subsequence(pairs):
    shares = [Fraction(longest_common(pair.source, pair.target), max(len(pair.target), 1)) for pair in pairs]
    assert survey(pairs).copied == pytest.approx(float(sum(shares) / len(shares)))


@settings(max_examples=20)
@given(pairs=corpora)
def test_the_order_of_pairs_has_no_say_as_long_as_all_are_looked_at(pairs):
    (*one, source, target), (*other, turned, about) = (astuple(survey(pairs[::step])) for step in (1, -1))
    assert [*one, *source, *target] == pytest.approx([*other, *turned, *about])


def test_of_a_larger_corpus_a_part_is_looked_at_that_the_seed_decides(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE", 50)
    pairs = [Pair("x" * (number % 97), str(number)) for number in range(2000)]
    one, other = survey(pairs, 1), survey(pairs, 2)
    assert one == survey(iter(pairs), 1)
    assert one != other
    for found in (one, other):  # counted over all of it
        assert (found.pairs, found.sources, found.source.longest, found.shortest) == (2000, 97, 96, 1)
        assert found.target.types == 50
        assert 30 < found.source.characters < 66


def test_of_long_texts_the_beginnings_are_looked_at():
    found = survey([Pair("a " * 500_000, "b" * 1_000_000)] * 2)
    assert (found.source.longest, found.source.most_words) == (1_000_000, 500_000)
    assert (found.source.words, found.target.characters) == (1000, 2000)


def test_compared_pairs_are_from_all_of_the_corpus(monkeypatch):
    monkeypatch.setattr(module, "COMPARED", 10)
    assert survey([Pair("ab", "ab")] * 50 + [Pair("ab", "cd")] * 50).copied == 0.5


@pytest.mark.parametrize(("texts_", "least"), [(1, 5), (250, 5), (500, 10), (1000, 20), (8000, 20), (40_000, 100)])
def test_frequent_words_stand_in_one_text_of_four_hundred(texts_, least):
    assert frequent_words({"often": least, "rare": least - 1}, texts_) == {"often"}
