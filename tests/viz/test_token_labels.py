import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.viz.token_labels import cells, for_terminal, friendly, isolate, letters, shorten, visible

from .fakes import tokens


def test_pieces_read_as_words():
    shown = friendly(["▁walk", "ing", "▁", "▁l'", "été", "</s>"], {"</s>"})
    assert shown == ("walk", "·ing", "▁", "l'", "·été", "</s>")


@pytest.mark.parametrize("plain", [["walk", "ing"], ["a", "▁", "b"], ["▁", "▁"], ["</s>"]])
def test_words_and_characters_stay_as_they_are(plain):
    assert friendly(plain, {"</s>"}) == tuple(plain)


@pytest.mark.parametrize(
    ("token", "shown"),
    [
        ("", "∅"),
        (" ", "␣"),
        ("\t", "␉"),
        ("\x1b[2J", "␛[2J"),
        ("\x7f", "␡"),
        ("\x9b", "�"),
        ("\ud800", "�"),
        ("\u202eabc", "abc"),
        ("\u0301", "◌\u0301"),
    ],
)
def test_nothing_acts_on_the_screen(token, shown):
    assert visible(token) == shown


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("é", 1), ("e\u0301", 1), ("赤い", 4), ("😀", 2), ("한", 2), ("\u1112\u1161", 2), ("ﾊ", 1)],
)
def test_cells_are_those_of_a_terminal(text, width):
    assert cells(text) == width


@given(tokens)
def test_labels_are_visible_and_safe(token):
    label = for_terminal(visible(token))
    assert cells(label) > 0
    assert not {unicodedata.category(char) for char in label} & {"Cc", "Cs", "Zl", "Zp"}
    assert "".join(letters(label)) == label
    assert all(cells(letter) in (1, 2) for letter in letters(label))


@given(tokens, st.integers(1, 20))
def test_shortened_labels_fit_and_begin_alike(token, room):
    label = for_terminal(visible(token))
    short = shorten(label, room)
    assert cells(short) <= room
    assert short == label or (short.endswith("…") and label.startswith(short[:-1]))


def test_right_to_left_is_kept_to_itself():
    assert isolate("שלום") == "\u2068שלום\u2069"
    assert isolate("abc") == "abc"
