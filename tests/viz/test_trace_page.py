"""Attention between texts as a page: all of the trace is in it, nothing of its words acts, and nothing is fetched."""

import base64
import json
import re
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings

from regard.errors import DisplayError
from regard.viz.trace import AttentionTrace
from regard.viz.trace_page import text_page, text_part

from .fakes import dress, make_trace, recipes

HOSTILE = ("</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "<!--", "{words}", '" onload="x')


class Page(HTMLParser):
    """What a page holds: that every element is closed in order, its elements, and its data."""

    VOID = ("meta", "input", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.data = [], [], ""
        self.feed(text)
        assert self.open == []
        self.data = json.loads(self.data)

    def handle_starttag(self, tag, attrs):
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script" and self.seen[-1][1].get("type") == "application/json":
            self.data += data

    def kinds(self):
        return Counter(tag for tag, _ in self.seen)


@settings(max_examples=25, deadline=None)
@given(recipes)
def test_a_page_holds_all_weights_and_nothing_of_its_words_acts(recipe):
    trace = make_trace(**{**recipe, "target": [*HOSTILE, *recipe["target"]], "source": [*HOSTILE, *recipe["source"]]})
    page = Page(text_page(trace, title=HOSTILE[0]))
    packed = np.frombuffer(base64.b64decode(page.data["weights"]), "<u2").reshape(page.data["shape"])
    np.testing.assert_allclose(packed / 65_535 * page.data["peak"], trace.weights, atol=1e-4)
    assert len(page.data["labels"]) == len(trace.target)
    assert len(page.data["source"]) == len(trace.source)
    harmless = make_trace(**{**recipe, "target": "a" * len(trace.target), "source": "a" * len(trace.source)})
    assert page.kinds() == Page(text_page(harmless, title="a")).kinds()


def test_a_page_fetches_nothing_and_can_be_used_without_a_mouse():
    text = text_page(make_trace("ab", "cde", layers=2, heads=2), layer=1)
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http-equiv", "")
    assert all(needed in text for needed in ("aria-live", "aria-pressed", "prefers-color-scheme", "ArrowRight"))
    chosen = [given["value"] for tag, given in Page(text).seen if tag == "option" and "selected" in given]
    assert chosen == ["1", "-1"]  # layer 1, the mean of its heads


def test_the_same_trace_gives_the_same_page(tmp_path):
    for name in ("one", "two"):
        dress().save(tmp_path / f"{name}.html", head="all")
    text = (tmp_path / "one.html").read_text()
    assert text == (tmp_path / "two.html").read_text()
    assert "<title>la robe rouge</title>" in text
    assert re.findall(r'<button type="button" dir="auto">(\w+)</button>', text) == ["la", "robe", "rouge"]


def test_without_attention_there_is_a_part_but_no_page():
    blind = AttentionTrace((), ("la", "</s>"), np.zeros((0, 1, 2, 0), np.float32), (-0.1, -0.2), -0.3)
    assert 'class="stepper trace blind"' in text_part(blind)
    with pytest.raises(DisplayError, match="This model has no attention"):
        text_page(blind)
    with pytest.raises(DisplayError, match="the output is empty"):
        text_part(make_trace("ab", ""))
