import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from regard.errors import DisplayError
from regard.viz.colour_scale import top
from regard.viz.heatmap_html_svg import attention_svg
from regard.viz.side_by_side import Panel, save_beside
from regard.viz.trace import AttentionTrace

SVG = "{http://www.w3.org/2000/svg}"


def trace(source=("▁the", "▁red", "</s>"), target=("▁la", "ro", "</s>"), seed=0):
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(source)), (2, 3, len(target))).astype(np.float32)
    return AttentionTrace(source, target, weights, (), -1.0)


def test_models_stand_side_by_side_with_labels_of_their_own(tmp_path):
    panels = [
        Panel("one", trace()),
        Panel("two", trace(target=("▁une", "</s>"))),
        Panel("none", None),
        Panel("x", trace()),
    ]
    assert save_beside(panels, tmp_path / "b.svg", title="the red") == []
    found = ["".join(node.itertext()) for node in ElementTree.parse(tmp_path / "b.svg").iter(f"{SVG}text")]
    assert found.count("red") == 3
    assert found.count("·ro") == 2
    assert {"one", "two", "none", "x", "une", "no attention", "the red"} <= set(found)
    strongest = max(top(panel.trace.look()) for panel in panels if panel.trace)
    assert f"full colour: a weight of {strongest:.1f}" in found


def test_where_none_looks_there_is_nothing_to_draw(tmp_path):
    with pytest.raises(DisplayError, match=r"^There is nothing to draw: none of the models has attention\.$"):
        save_beside([Panel("a", None)], tmp_path / "b.svg")


def test_a_piece_of_a_page_has_a_cell_for_every_weight():
    shown = trace()
    svg = ElementTree.fromstring(attention_svg(shown, strongest=1.0))
    look = shown.look()
    cells = list(svg.iter("rect"))
    assert len(cells) == look.size
    assert [float(cell.get("fill-opacity")) for cell in cells] == [round(float(w), 2) for w in look.reshape(-1)]
    assert cells[1].find("title").text == f"la ← red {look[0, 1]:.2f}"
    labels = [(node.text, node.get("class")) for node in svg.iter("text")]
    assert labels == [
        ("the", None), ("red", None), ("</s>", "mark"), ("la", "end"), ("·ro", "end"), ("</s>", "mark end"),
    ]  # fmt: skip


def test_what_is_nothing_has_no_cell_and_what_is_strongest_is_painted_in_full():
    weights = np.array([[[[0.0, 0.5, 0.5]]]], np.float32)
    svg = ElementTree.fromstring(attention_svg(AttentionTrace(("a", "<b>", "&"), ("c",), weights, (), 0.0)))
    assert [cell.get("fill-opacity") for cell in svg.iter("rect")] == ["1.00", "1.00"]
    assert [node.text for node in svg.iter("text")] == ["a", "<b>", "&", "c"]
