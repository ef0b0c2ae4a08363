"""Which parts of a source must survive, and what is said of a glossary that cannot be read."""

import pytest

from regard.decoding.terminology.glossary import read_glossary
from regard.decoding.terminology.term_extraction import Terms
from regard.errors import ConfigError, DataError


def texts(terms, line):
    return [term.text for term in terms.of(line)]


def test_every_match_counts_in_the_order_of_the_source():
    assert texts(Terms(r"<[^>]+>|\d+"), "<b>3 of 13</b> <b>") == ["<b>", "3", "13", "</b>", "<b>"]
    assert texts(Terms(r"\d*"), "no digit") == []
    assert texts(Terms(r" \S+ "), "a <1> b") == ["<1>"]
    assert texts(Terms(), "a 1") == []


GLOSSARY = {"dress": "robe", "red dress": "robe rouge", "US": "États-Unis", "日本": "Japon", "C++": "C++", "B2": "B2"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a dress", ["robe"]),
        ("a red dress and a dress.", ["robe rouge", "robe"]),
        ("dresses, undress, DRESS", []),
        ("Dress! dress-code", ["robe", "robe"]),
        ("US not us", ["États-Unis"]),
        ("in 日本語", ["Japon"]),
        ("C++, C+++ and B2, B22", ["C++", "C++", "B2"]),
        ("", []),
        ("red", []),
    ],
)
def test_a_glossary_is_looked_up_word_by_word_the_longest_term_first(line, expected):
    assert texts(Terms(glossary=GLOSSARY), line) == expected


def test_where_two_overlap_the_longer_counts_and_then_what_is_kept():
    both = Terms(r"<[^>]+>|\d+", {"b": "gras", "Windows 11": "Fenêtres 11", "7": "sept"})
    assert texts(both, "<b> b on Windows 11, 7") == ["<b>", "gras", "Fenêtres 11", "7"]


def test_a_term_is_as_whole_in_the_translation_as_it_was_in_the_source():
    (whole,) = Terms("NAME").of("to NAME.")
    (part,) = Terms("NAME").of("NAMEs")
    assert (whole.left, whole.right) == ("letter", "letter")
    assert (part.left, part.right) == ("letter", "")
    (number,) = Terms(r"\d").of("3rd")
    assert (number.left, number.right, number.apart) == ("digit", "digit", True)
    assert not Terms("<1>").of("(<1>)")[0].apart


def test_what_is_no_regular_expression_is_told():
    with pytest.raises(ConfigError) as caught:
        Terms("<[")
    assert str(caught.value) == (
        "The pattern of terms to keep, '<[', is not a regular expression: unterminated character set at position 1."
    )


def test_an_empty_term_is_told():
    with pytest.raises(ConfigError) as caught:
        Terms(glossary={"dress": " "})
    assert str(caught.value) == "A term of the glossary is empty: 'dress' is translated ' '."


def test_of_several_glossaries_the_last_one_counts(tmp_path):
    (tmp_path / "one.tsv").write_text("\ufeffdress\trobe\n\n cat \tchat\r\n", encoding="utf-8")
    (tmp_path / "two.tsv").write_text("dress\tjupe\n", encoding="utf-8")
    both = read_glossary([str(tmp_path / "one.tsv"), str(tmp_path / "two.tsv")])
    assert both == {"dress": "jupe", "cat": "chat"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "dress\trobe\ncat\n",
            "{}, line 2: 1 column, but a glossary has two, the source term and the target term, separated by a tab.",
        ),
        (
            "a\tb\tc\n",
            "{}, line 1: 3 columns, but a glossary has two, the source term and the target term, separated by a tab.",
        ),
        ("dress\t \n", "{}, line 1: the target term is empty."),
        ("\trobe\n", "{}, line 1: the source term is empty."),
        (
            "dress\trobe\ndress\trobe\ndress\tjupe\n",
            "{}, line 3: 'dress' is translated 'jupe', but in line 1 it is 'robe'. Leave one of them out.",
        ),
        ("\n", "{} has no terms: a glossary has a source term, a tab and a target term in each line."),
    ],
)
def test_a_line_that_is_no_term_is_told(tmp_path, content, message):
    path = tmp_path / "terms.tsv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_glossary([str(path)])
    assert str(caught.value) == message.format(path)
