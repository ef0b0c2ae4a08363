import random
import xml.etree.ElementTree as ElementTree

import pytest

from regard.errors import DisplayError
from regard.viz import scatter_plot as module
from regard.viz.scatter_plot import Dot, scatter

SVG = "{http://www.w3.org/2000/svg}"


def texts(path):
    return ["".join(node.itertext()) for node in ElementTree.parse(path).iter(f"{SVG}text")]


def test_every_dot_is_named_in_every_panel(tmp_path):
    dots = [Dot("one $x$", 100.0, 10.0, 2.0, 0), Dot("two_y", 120.0, 10.1, 0.0, 1)]
    assert scatter({"tokens/s": dots, "sentences/s": dots}, tmp_path / "s.svg") == []
    found = texts(tmp_path / "s.svg")
    assert found.count("one $x$") == found.count("two_y") == 2
    assert {"tokens/s", "sentences/s", "BLEU"} <= set(found)


def test_names_cover_neither_each_other_nor_dots(tmp_path, monkeypatch):
    """Drawn by matplotlib, measured by matplotlib: eight names around dots that nearly touch."""
    random.seed(2)
    crowd = [Dot(f"variant-{i}", 1000 + 150 * random.random(), 30 + random.random(), 0.0, i) for i in range(7)]
    dots = [*crowd, Dot("far away", 1000.0, 40.0)]
    boxes = []
    real = module._names

    def spy(axes, given):
        real(axes, given)
        boxes.extend(text.get_window_extent() for text in axes.texts)
        boxes.extend(_around(axes.transData.transform((dot.x, dot.y))) for dot in given)

    monkeypatch.setattr(module, "_names", spy)
    scatter({"tokens/s": dots}, tmp_path / "s.png")
    assert len(boxes) == 16
    for i, one in enumerate(boxes[:8]):
        for other in boxes[i + 1 :]:
            assert module._area(one, other) == 0


def _around(centre):
    from matplotlib.transforms import Bbox

    x, y = centre
    return Bbox.from_extents(x - 3, y - 3, x + 3, y + 3)


def test_better_is_higher_also_where_low_is_good(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(module, "_names", lambda axes, dots: seen.append(axes.yaxis_inverted()))
    dots = [Dot("a", 1.0, 2.0), Dot("b", 100.0, 3.0)]
    scatter({"x": dots}, tmp_path / "s.svg", low_is_good=True)
    scatter({"x": dots}, tmp_path / "s.svg")
    assert seen == [True, False]


def test_no_dots_no_plot(tmp_path):
    with pytest.raises(DisplayError, match=r"^There is nothing to draw: there are no points\.$"):
        scatter({"x": []}, tmp_path / "s.svg")
