"""Traces in notebooks: whole pages in frames of their own, that fetch nothing and show every text as text."""

from html.parser import HTMLParser

import numpy as np
import pytest

from regard.decoding.editing import EditedTranslation
from regard.decoding.translation import Translation
from regard.viz.notebook import LEAST, MOST
from regard.viz.trace import AttentionTrace
from regard.viz.trace_page import text_page

HOSTILE = [
    '"></iframe><script>alert(1)</script>',
    "&lt;img src=x onerror=alert(1)>",
    "\u202eabc",
    "</script><b>",
    "'\"&",
]


def trace_of(source, target, log_probs=()):
    weights = np.full((2, 3, len(target), len(source)), 1 / max(1, len(source)), np.float32)
    return AttentionTrace(tuple(source), tuple(target), weights, tuple(log_probs), None)


class Reader(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("tokens", [["the", "red", "</s>"], HOSTILE], ids=["plain", "hostile"])
def test_a_trace_is_one_frame_with_the_page_that_is_saved(tokens):
    trace = trace_of(tokens, tokens)
    found = Reader(trace._repr_html_())
    ((tag, attributes),) = found.tags
    assert tag == "iframe"
    assert attributes["srcdoc"] == text_page(trace)
    assert attributes["sandbox"] == "allow-scripts"  # a frame of its own origin: nothing of the notebook is in reach
    assert not {"src", "id", "name"} & attributes.keys()
    assert found.text == ""


def test_a_frame_fetches_nothing():
    page = Reader(trace_of(["a"], ["b"])._repr_html_()).tags[0][1]["srcdoc"]
    inner = Reader(page)
    assert ("meta", "Content-Security-Policy") in {(tag, given.get("http-equiv")) for tag, given in inner.tags}
    assert not [given for _, given in inner.tags if {"src", "href"} & given.keys()]
    assert "http:" not in page.replace("http://www.w3.org", "")


def test_frames_of_one_notebook_are_alike_only_in_their_frames():
    first, second = (trace_of(["a"], [word])._repr_html_() for word in ("x", "y"))
    assert first != second
    assert 'id="' not in first.partition("srcdoc")[0]


@pytest.mark.parametrize(("count", "height"), [(1, LEAST), (200, MOST)])
def test_frames_are_as_tall_as_they_need(count, height):
    assert f"height: {height}px" in trace_of(["a"], ["b"] * count)._repr_html_()


@pytest.mark.parametrize("source", [[], ["a"]])
def test_what_has_no_attention_is_shown_as_text(source):
    trace = AttentionTrace(tuple(source), ("<b>", "x"), np.zeros((0, 1, 2, len(source)), np.float32), (), None)
    found = Reader(trace._repr_html_())
    assert [tag for tag, _ in found.tags] == ["p", "small"]
    assert found.text == "<b> x (no attention)"
    assert "(no attention)" in Translation("", 0.0, (), trace_of([], []))._repr_html_()


def test_a_translation_has_its_text_above_the_page():
    trace = trace_of(["a"], ["<i>b", "</s>"], [-1.0, -2.0])
    ((_, attributes),) = Reader(Translation("<i>b", -3.0, trace.target, trace)._repr_html_()).tags
    assert "&lt;i&gt;b</h1>" in attributes["srcdoc"]
    assert attributes["title"] == "<i>b"


def test_an_edited_translation_shows_what_changed():
    old, new = (trace_of(["a"], tokens, [-1.0] * 3) for tokens in (["x", "<y>", "</s>"], ["x", "z", "</s>"]))
    before = Translation("x <y>", -3.0, old.target, old)
    edited = EditedTranslation("x z", -3.0, new.target, new, before=before, edited_log_probs=(-1.0,) * 3)
    shown, frame = edited._repr_html_().split("<iframe")
    assert shown == '<p dir="auto">x <del>&lt;y&gt;</del> <ins>z</ins> &lt;/s&gt;</p>'
    assert frame
