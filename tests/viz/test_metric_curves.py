import json
import re
import xml.etree.ElementTree as ElementTree

import pytest

from regard.errors import DisplayError
from regard.viz import metric_curves
from regard.viz.metric_curves import by_length, learning_curves, read_metrics

KNOWN = "'loss', 'valid_loss', 'bleu', 'chrf', 'exact', 'accuracy', 'f1', 'ap'"
SVG = "{http://www.w3.org/2000/svg}"


def texts(path) -> set[str]:
    return {"".join(node.itertext()) for node in ElementTree.parse(path).iter(f"{SVG}text")}


def write(path, records, tail=""):
    path.write_text("".join(json.dumps(record) + "\n" for record in records) + tail)
    return path


TRAINING = [{"step": step, "epoch": 1, "loss": 5.0 / step, "learning_rate": 1e-3} for step in range(1, 30)]
VALIDATION = [
    {"step": 10, "valid_loss": 1.5, "perplexity": 4.5, "bleu": 12.25},
    {"step": 20, "valid_loss": 1.0, "bleu": 31.4},
]


def test_a_resumed_run_overwrites_the_steps_that_it_repeats():
    records = [
        {"step": 2, "loss": 5.0},
        {"step": 1, "loss": 9.0},
        {"step": 2, "loss": 4},
        {"step": 3, "loss": float("nan")},
    ]
    assert metric_curves.points_of(records, "loss") == [(1.0, 9.0), (2.0, 4.0)]


def test_bad_metrics_are_named_by_line(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "loss": 2}\nnonsense\n{"step": 2, "loss": 1}\n')
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot read {path}: line 2 is not a JSON object.')}$"):
        read_metrics(path)
    path.write_bytes(b'{"a": "\xff"}\n')
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot read {path}: not UTF-8 (byte 7).')}$"):
        read_metrics(path)
    path.unlink()
    with pytest.raises(DisplayError, match=f"^{re.escape(f'Cannot read {path}: No such file or directory.')}$"):
        read_metrics(path)


def test_lengths_stand_in_order_and_every_model_is_named(tmp_path):
    series = {"with attention": [("1–10", 98.0), ("over 10", 97.0)], "without": [("1–10", 90.0), ("over 10", 40.0)]}
    assert by_length(series, tmp_path / "length.svg", title="Costs $ and _") == []
    assert {"with attention", "without", "1–10", "over 10", "BLEU", "source words", "Costs $ and _"} <= texts(
        tmp_path / "length.svg"
    )


def test_no_points_no_plot(tmp_path):
    with pytest.raises(DisplayError, match=r"^There is nothing to draw: no series has any points\.$"):
        by_length({"nothing": []}, tmp_path / "length.svg")


def test_plots_are_pictures_only(tmp_path):
    path = tmp_path / "length.json"
    expected = f"Cannot save {path}: files of kind '.json' cannot be written. Use one of .png, .svg, .pdf."
    with pytest.raises(DisplayError, match=f"^{re.escape(expected)}$"):
        by_length({"a": [("1", 1.0)]}, path)


def test_models_learn_side_by_side_and_runs_of_one_share_its_name(tmp_path):
    paths = [write(tmp_path / f"{number}.jsonl", TRAINING + VALIDATION) for number in range(3)]
    assert learning_curves({"a": paths[:2], "b $x$": paths[2:], "failed": []}, tmp_path / "c.svg") == []
    found = [text for text in _texts(tmp_path / "c.svg") if text in ("a", "b $x$", "failed")]
    assert sorted(found) == ["a", "b $x$"]
    assert {"validation BLEU", "validation loss", "step"} <= texts(tmp_path / "c.svg")
    assert "training loss" not in texts(tmp_path / "c.svg")
    unvalidated = write(tmp_path / "3.jsonl", TRAINING)
    learning_curves({"a": [unvalidated]}, tmp_path / "c.svg")
    assert "training loss" in texts(tmp_path / "c.svg")
    with pytest.raises(
        DisplayError,
        match=rf"^There is nothing to draw: no run has any of {KNOWN}\.$",
    ):
        learning_curves({"a": []}, tmp_path / "c.svg")


def _texts(path) -> list[str]:
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter(f"{SVG}text")]


def test_nine_models_can_be_told_apart(tmp_path):
    drawn = []
    figure = type("Axes", (), {"plot": lambda self, *_, **look: drawn.append(look)})()
    for number in range(9):
        metric_curves._line(figure, [(0.0, 1.0)], number, str(number))
    assert len({(look["color"], look["marker"], look["linestyle"]) for look in drawn}) == 9


def test_names_that_no_picture_can_hold_are_made_visible(tmp_path):
    series = {"a\x01 b": [("1", 1.0)], "caf\udce9": [("1", 2.0)]}
    by_length(series, tmp_path / "length.svg", title="\x1b \udce9.tsv, 2 sentences")
    assert {"a␁ b", "caf�", "␛ �.tsv, 2 sentences"} <= texts(tmp_path / "length.svg")
    path = write(tmp_path / "metrics.jsonl", VALIDATION)
    learning_curves({name: [path] for name in series}, tmp_path / "learning.svg")
    assert {"a␁ b", "caf�"} <= texts(tmp_path / "learning.svg")
