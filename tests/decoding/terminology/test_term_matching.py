"""Where a term stands in a text: the same however the text comes, whole words and digits alone."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.decoding.terminology.term_matching import Pattern, Reading, class_of

TERMS = ["a", "ab", "éa", "aé", "1", "<a>", "a a", "11", "東京", "京", "x<", "ab a"]
LETTERS = "abéx"


def pattern(term):
    return Pattern(term.encode(), class_of(term[0]), class_of(term[-1]))


def expected(term, text):
    """Told by a regular expression: non-overlapping, from left to right."""
    left = f"(?<![{LETTERS}])" if term[0] in LETTERS else "(?<!1)" if term[0] == "1" else ""
    right = f"(?![{LETTERS}])" if term[-1] in LETTERS else "(?!1)" if term[-1] == "1" else ""
    return [len(text[: match.start()].encode()) for match in re.finditer(left + re.escape(term) + right, text)]


texts = st.text("abéx1 <>東京", max_size=14) | st.lists(st.sampled_from([*TERMS, " ", "b"]), max_size=7).map("".join)


@given(st.sampled_from(TERMS), texts)
@settings(max_examples=300, deadline=None)
def test_a_term_is_found_where_a_regular_expression_finds_it(term, text):
    assert pattern(term).scan(text.encode()).places == expected(term, text)


@given(st.sampled_from(TERMS), texts, st.data())
@settings(max_examples=400, deadline=None)
def test_reading_in_parts_counts_what_reading_at_once_counts(term, text, data):
    """Parts may end in the middle of a character."""
    spelt, own, reading, count, place = text.encode(), pattern(term), Reading(), 0, 0
    while place < len(spelt):
        size = data.draw(st.integers(1, 5))
        reading, more = own.read(reading, spelt[place : place + size])
        count, place = count + more, place + size
        so_far = spelt[:place].decode(errors="ignore")
        if so_far.encode() == spelt[:place]:
            assert count + own.stands_at_end(reading) == len(expected(term, so_far))


@pytest.mark.parametrize(
    ("character", "kind"),
    [
        *((character, "letter") for character in "aéя한\u0301"),
        *((character, "digit") for character in "7٣"),
        *((character, "") for character in "東かカーก<_ 😀"),
    ],
)
def test_what_makes_a_word_with_its_like(character, kind):
    assert class_of(character) == kind


def test_broken_bytes_are_no_letters():
    own = pattern("ab")
    assert own.scan(b"\xc3ab").places == [1]
    assert own.scan(b"ab\xff").places == [0]
    reading, count = own.read(Reading(), b"ab\xc3")
    assert (count, own.stands_at_end(reading)) == (0, True)
    assert own.read(reading, b"\xa9")[1] == 0  # an é
    assert own.read(reading, b" ")[1] == 1
