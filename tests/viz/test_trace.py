import json
import re
import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings

from regard.errors import DisplayError
from regard.viz.picture_files import DisplayWarning
from regard.viz.trace import AttentionTrace

from .fakes import dress, make_trace, recipes


@settings(max_examples=25, deadline=None)
@given(recipes)
def test_json_gives_back_the_same_trace(tmp_path_factory, recipe):
    count = len(recipe["target"])
    trace = make_trace(
        **recipe,
        candidates=tuple((("a", 0.75), ("▁b", 0.25)) for _ in range(count)),
        target_words=tuple(range(count)),
        special=frozenset({"</s>", "<mine>"}),
    )
    path = tmp_path_factory.mktemp("trace") / "look.json"
    assert trace.save(path) == []
    again = AttentionTrace.load(path)
    assert np.abs(again.weights - trace.weights).max() <= 1e-6
    assert again.weights.dtype == np.float32
    for name in ("source", "target", "log_probs", "score", "candidates", "source_words", "target_words", "special"):
        assert getattr(again, name) == getattr(trace, name)


def test_a_trace_without_attention_survives_json(tmp_path):
    trace = AttentionTrace(("a",), ("x", "y"), np.zeros((0, 0, 2, 1), dtype=np.float32), (), 0.0)
    trace.save(tmp_path / "look.json")
    assert AttentionTrace.load(tmp_path / "look.json").weights.shape == (0, 0, 2, 1)


def test_what_is_not_finite_is_null_in_json(tmp_path):
    weights = np.array([np.nan, 1, np.inf, 0], np.float32).reshape(1, 1, 2, 2)
    odds = ((("x", float("nan")),), (("y", 0.5),))
    AttentionTrace(("a", "b"), ("x", "y"), weights, (-np.inf, -0.5), -np.inf, odds).save(tmp_path / "look.json")
    text = (tmp_path / "look.json").read_text()
    record = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert (record["weights"], record["log_probs"]) == ([[[[None, 1.0], [None, 0.0]]]], [None, -0.5])
    again = AttentionTrace.load(tmp_path / "look.json")
    np.testing.assert_array_equal(again.weights[0, 0], [[np.nan, 1], [np.nan, 0]])
    assert (again.log_probs, again.score) == ((-np.inf, -0.5), None)


def test_look_is_the_mean_over_what_is_not_chosen():
    trace = make_trace("abc", "xyzuv", layers=2, heads=7)
    np.testing.assert_allclose(trace.look(), trace.weights.mean(axis=(0, 1)), rtol=1e-6)
    np.testing.assert_allclose(trace.look(layer=1), trace.weights[1].mean(axis=0), rtol=1e-6)
    np.testing.assert_array_equal(trace.look(layer=1, head=-1), trace.weights[1, 6])


def test_words_take_all_the_weight_of_their_pieces():
    weights = np.array([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0, 0, 0, 1]], dtype=np.float32)[None, None]
    words = {"source_words": (0, 0, 1, -1), "target_words": (0, 0, -1)}
    trace = AttentionTrace(("▁a", "b", "▁c", "</s>"), ("▁x", "y", "</s>"), weights, (), 0.0, **words)
    np.testing.assert_allclose(trace.words(), [[(0.3 + 0.6) / 2, (0.3 + 0.2) / 2]], rtol=1e-6)


def test_words_of_a_source_of_marks_alone_are_none():
    weights = np.ones((1, 1, 1, 1), dtype=np.float32)
    trace = AttentionTrace(("</s>",), ("x",), weights, (), 0.0, source_words=(-1,), target_words=(0,))
    assert trace.words().shape == (1, 0)


def test_what_does_not_fit_together_is_refused():
    weights = np.zeros((1, 1, 2, 3), dtype=np.float32)
    expected = "A trace of 1 target and 3 source tokens needs weights of shape (layers, heads, 1, 3), got (1, 1, 2, 3)."
    with pytest.raises(DisplayError, match=f"^{re.escape(expected)}$"):
        AttentionTrace(("a", "b", "c"), ("x",), weights, (), 0.0)
    expected = "A trace's log_probs must have one entry per token (2) or none, got 1."
    with pytest.raises(DisplayError, match=f"^{re.escape(expected)}$"):
        AttentionTrace(("a", "b", "c"), ("x", "y"), weights, (0.0,), 0.0)


@pytest.mark.parametrize(("choice", "message"), [
    ({"layer": 1}, "There is no layer 1: this model has 1, counted from 0."),
    ({"head": -2}, "There is no head -2: this model has 1, counted from 0."),
])  # fmt: skip
def test_layers_and_heads_that_are_not_there(choice, message):
    with pytest.raises(DisplayError, match=f"^{re.escape(message)}$"):
        dress().look(**choice)


def test_negative_numbers_count_from_the_end_and_are_told_as_what_they_stand_for():
    trace = make_trace(["a", "b"], ["x"], layers=3, heads=2)
    np.testing.assert_array_equal(trace.look(-1, -2), trace.look(2, 0))
    assert trace.caption(-1, -2) == trace.caption(2, 0) == "score -1.25 · layer 2 · head 0"
    assert trace.every_head(-1) == trace.every_head(2) == [(2, 0), (2, 1)]


def test_where_nothing_was_searched_for_there_is_no_score():
    trace = replace(make_trace(["a", "b"], ["x"], heads=4), score=None)
    assert trace.caption() == "mean of 4 heads"
    assert trace.caption(0, 1) == "layer 0 · head 1"
    assert "score" not in trace.render()
    assert replace(dress(), score=None).render().splitlines()[-1].endswith("█ 1.0")
    assert AttentionTrace.from_json(trace.to_json()).score is None


@pytest.mark.parametrize(("name", "got"), [
    ("look.jpg", "files of kind '.jpg' cannot be written"),
    ("look", "a file without a suffix cannot be written"),
])  # fmt: skip
def test_other_kinds_of_files_are_refused(tmp_path, name, got):
    path = tmp_path / name
    expected = f"Cannot save {path}: {got}. Use one of .png, .svg, .pdf, .html, .json."
    with pytest.raises(DisplayError, match=f"^{re.escape(expected)}$"):
        dress().save(path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["json", "svg"])
def test_what_cannot_be_written_says_why(tmp_path, kind):
    path = tmp_path / "missing" / f"look.{kind}"
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot write {path}: No such file or directory.')}$"):
        dress().save(path)
    folder = tmp_path / f"folder.{kind}"
    folder.mkdir()
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot write {folder}: Is a directory.')}$"):
        dress().save(folder)
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(28, "No space left on device")

    path = tmp_path / "look.svg"
    path.write_text("old")
    monkeypatch.setattr("regard.viz.picture_files.write_atomically", full)
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot write {path}: No space left on device.')}$"):
        dress().save(path)
    assert path.read_text() == "old"


@pytest.mark.parametrize(("content", "reason"), [
    ('{"format": "other"}', "Not an attention trace: 'format' is 'other', expected 'regard-trace-1'."),
    ("[1, 2]", "Not an attention trace: 'format' is None, expected 'regard-trace-1'."),
    ('{"format": "regard-trace-1"}', "Not a complete attention trace: KeyError: 'source'."),
    ("{", "not a JSON file (Expecting property name enclosed in double quotes: line 1 column 2 (char 1))."),
])  # fmt: skip
def test_files_that_are_no_traces(tmp_path, content, reason):
    path = tmp_path / "look.json"
    path.write_text(content)
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot read {path}: {reason}')}$"):
        AttentionTrace.load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(
        DisplayError, match=f"^{re.escape(f'Cannot read {tmp_path}/no.json: No such file or directory.')}$"
    ):
        AttentionTrace.load(tmp_path / "no.json")


def test_a_trace_broken_by_hand_is_refused(tmp_path):
    record = dress().to_json()
    record["weights"] = record["weights"][0]
    record["shape"] = [7]
    with pytest.raises(DisplayError, match=r"^Not a complete attention trace: ValueError: "):
        AttentionTrace.from_json(json.loads(json.dumps(record)))


def test_notes_are_returned_and_warned_of_unless_quiet(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.viz.heatmap_figure.save_picture", lambda *_, **__: ["Mind the gap."])
    with pytest.warns(DisplayWarning, match=r"^Mind the gap\.$"):
        assert dress().save(tmp_path / "look.png") == ["Mind the gap."]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert dress().save(tmp_path / "look.png", quiet=True) == ["Mind the gap."]
