"""The learning curve of a run: an SVG that is well-formed, has what it shows in its frame, and needs no matplotlib."""

import re
import sys
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DisplayError
from regard.viz import training_curve as curve
from regard.viz.plot_axes import fit, label
from regard.viz.training_curve import training_curve

SVG = "{http://www.w3.org/2000/svg}"
TRAINING = [{"step": step, "loss": 5.0 / step, "learning_rate": 1e-3 / step} for step in range(1, 31)]
VALIDATION = [
    {"step": 10, "valid_loss": 1.5, "exact": 12.25, "bleu": 3.0, "metric": "exact", "best": True},
    {"step": 20, "valid_loss": 1.0, "exact": 31.4, "bleu": 5.0, "metric": "exact", "best": True},
    {"step": 30, "valid_loss": 1.1, "exact": 30.0, "bleu": 6.0, "metric": "exact", "best": False},
]


def texts(svg):
    return ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_losses_the_deciding_score_and_the_rate_with_the_best_step():
    svg = training_curve(TRAINING + VALIDATION)
    found = texts(svg)
    for text in (
        *("loss per token", "exact match in % on validation", "learning rate", "step"),
        *("training 0.1667", "validation 1.1", "30", "best at step 20: 31.4"),
    ):
        assert text in found
    assert not any("BLEU" in text for text in found)
    hints = ["".join(node.itertext()) for node in ElementTree.fromstring(svg).iter(f"{SVG}title")]
    assert "step 20: validation 1" in hints
    assert "step 20: 31.4" in hints


def test_where_the_loss_decides_its_best_is_marked():
    records = [{**record, "metric": "loss"} for record in VALIDATION]
    assert "best at step 20: 1" in texts(training_curve(records))


def test_a_run_without_validation_has_no_best():
    found = texts(training_curve(TRAINING))
    assert not any(text.startswith(("best", "validation", "exact")) for text in found)


def test_pictures_are_not_tokens():
    assert "loss per picture" in texts(training_curve([{"step": 1, "loss": 1.0, "pictures_per_second": 9.0}]))


def test_nothing_to_draw():
    with pytest.raises(
        DisplayError, match=r"^There is nothing to draw: no record has a loss, a score or a learning rate\.$"
    ):
        training_curve([{"step": 1}])


def test_it_is_the_same_bytes_and_needs_no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert training_curve(TRAINING + VALIDATION) == training_curve(TRAINING + VALIDATION)


def test_a_long_run_is_a_small_picture():
    records = [{"step": step, "loss": 1.0 + 1 / step, "learning_rate": 1e-3} for step in range(1, 100_001)]
    assert len(training_curve(records)) < 100_000


LOSS = st.floats(0.0, 1e6, allow_nan=False)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(st.tuples(LOSS, st.floats(0.0, 1.0)), min_size=1, max_size=20),
    st.lists(st.tuples(LOSS, st.floats(0.0, 100.0)), max_size=9),
    st.integers(1, 10**6),
)
def test_any_run_is_drawn_within_its_frame(training, validation, every):
    records = [
        {"step": every * number, "loss": loss, "learning_rate": rate} for number, (loss, rate) in enumerate(training, 1)
    ]
    records += [
        {"step": every * number, "valid_loss": loss, "bleu": score, "metric": "bleu", "best": number == 1}
        for number, (loss, score) in enumerate(validation, 1)
    ]
    svg = training_curve(records)
    root = ElementTree.fromstring(svg)
    assert not re.search(r"nan|inf\b", re.sub(r"<style>.*</style>", "", svg))
    high = float(root.get("height"))
    for node in root.iter(f"{SVG}circle"):
        assert curve.LEFT - 0.1 <= float(node.get("cx")) <= curve.WIDTH - curve.RIGHT + 0.1
        assert curve.TOP - 0.1 <= float(node.get("cy")) <= high - curve.BOTTOM + 0.1
    names = [node for node in root.iter(f"{SVG}text") if node.get("class") == "name" and node.text]
    assert all(float(node.get("y")) < high for node in names)


@settings(deadline=None, max_examples=200)
@given(st.floats(-1e9, 1e9), st.floats(0.0, 1e9), st.integers(2, 8), st.booleans())
def test_an_axis_holds_its_values_between_round_numbers(low, width, count, log):
    width = width if width > 1e-6 * abs(low) else 0.0
    axis = fit(low, low + width, 100.0, 0.0, count=count, log=log)
    assert list(axis.ticks) == sorted(set(axis.ticks))
    assert 2 <= len(axis.ticks) <= count + 3 or axis.log
    slack = 1e-6 * max(abs(low), abs(low + width), 1e-12)
    assert axis.low - slack <= low
    assert low + width <= axis.high + slack
    assert axis.at(axis.low) == pytest.approx(100.0)
    assert axis.at(axis.high) == pytest.approx(0.0, abs=1e-6)


@settings(deadline=None, max_examples=100)
@given(st.floats(1e-6, 1e3), st.floats(10.0, 1e6), st.integers(2, 6))
def test_wide_ranges_get_a_logarithm(low, factor, count):
    axis = fit(low, low * factor, 0.0, 1.0, count=count, log=True)
    assert axis.log
    assert axis.low <= low * (1 + 1e-6)
    assert low * factor <= axis.high * (1 + 1e-6)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (2e-5, "2e-5"), (2.5e-4, "2.5e-4"), (0.002, "0.002"), (2.5, "2.5"), (12000.0, "12,000"), (-3.0, "-3")],
)
def test_labels(value, text):
    assert label(value) == text
