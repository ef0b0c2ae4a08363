"""Attention over images: laws of what is painted, in strips, pages and terminals."""

import base64
import json
import re
import xml.etree.ElementTree as ElementTree
from collections import Counter
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DisplayError
from regard.viz import colour_scale
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_heat import Regions, fitted, overlaid, pixels_of, top
from regard.viz.overlay_page import image_page
from regard.viz.overlay_picture import HeatMap, save_maps
from regard.viz.png import from_png, png
from regard.viz.token_labels import cells

from .fakes import tokens

ANSI = re.compile(r"\x1b\[[\d;]*m")
SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ("</script><script>alert(1)</script>", "<!--", '"><img src=x onerror=alert(1)>', "&amp;", "{x}", "\u2028")
LONG = "Donaudampfschifffahrtsgesellschaftskapitän"


def picture(height=22, width=34, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels)).astype(np.uint8)


def over_grid(words=("a", "red", "ring"), rows=3, columns=5, layers=1, heads=1, seed=0, **more) -> ImageTrace:
    noise = np.random.default_rng(seed).normal(size=(layers, heads, len(words), rows * columns)) * 3
    weights = np.exp(noise) / np.exp(noise).sum(axis=-1, keepdims=True)
    image = more.pop("image", None)
    shaped = weights.reshape(layers, heads, len(words), rows, columns)
    return ImageTrace.of(picture() if image is None else image, words, shaped, **more)


def over_boxes(**more) -> ImageTrace:
    boxes = np.array([[0, 0, 34, 22], [3, 5, 17, 13], [20, 2, 31, 19]])
    return ImageTrace.of(picture(), ["a", "dog"], np.array([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7]]), boxes=boxes, **more)


# ------------------------------------------------------------------------------------------------------------ heat


@pytest.mark.parametrize("grid", [(1, 1), (1, 7), (5, 1), (3, 5), (8, 8), (14, 14)])
def test_heat_is_the_weight_in_the_middle_of_a_cell_and_never_beyond_its_neighbours(grid):
    rows, columns = grid
    weights = np.random.default_rng(1).dirichlet(np.ones(rows * columns)).astype(np.float32)
    field = Regions(grid, None, (rows * 11, columns * 11)).field(weights, rows * 11, columns * 11)  # 11: odd
    np.testing.assert_allclose(field[5::11, 5::11].ravel(), weights, rtol=1e-5)
    assert field.min() >= weights.min() - 1e-7
    assert field.max() <= weights.max() + 1e-7
    flat = Regions(grid, None, (13, 17)).field(np.full(rows * columns, 0.3, np.float32), 13, 17)
    np.testing.assert_allclose(flat, 0.3, rtol=1e-5)


@pytest.mark.parametrize("cell", [0, 4, 7, 14])
@pytest.mark.parametrize("shade", [0, 120, 255])
def test_the_one_cell_that_is_looked_at_is_the_brightest(cell, shade):
    weights = np.zeros((1, 15), np.float32)
    weights[0, cell] = 1
    field = Regions((3, 5), None, (33, 55)).field(weights[0], 33, 55)
    shown = overlaid(np.full((33, 55, 3), shade, np.uint8), field / top(weights)).astype(float) @ [0.21, 0.72, 0.07]
    means = shown.reshape(3, 11, 5, 11).mean(axis=(1, 3)).ravel()
    assert means.argmax() == cell
    row, column = divmod(cell, 5)
    assert shown[row * 11 + 5, column * 11 + 5] == shown.max()


def test_a_pixel_has_the_weight_of_the_strongest_box_that_it_is_in():
    trace = over_boxes()
    for look in trace.look():
        field = trace.regions.field(look, 44, 68)  # twice the image
        for y, x in ((0, 0), (20, 20), (12, 50), (43, 67)):
            across, down = (trace.boxes[:, k] <= at / 2 for k, at in ((0, x), (1, y)))
            before, above = (at / 2 < trace.boxes[:, k] for k, at in ((2, x), (3, y)))
            assert field[y, x] == look[across & down & before & above].max()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 300))
def test_an_image_keeps_its_shape_whatever_its_size(height, width, longest):
    found = fitted(picture(height, width), longest).shape
    assert max(found[:2]) <= longest
    assert max(found[:2]) >= min(max(height, width), longest) / 2
    share = longest / max(height, width)
    exact = (height * int(share), width * int(share)) if share >= 1 else (height * share, width * share)
    assert all(abs(got - want) <= 0.5 or got == 1 for got, want in zip(found[:2], exact, strict=True))


def test_heat_gets_lighter_in_even_steps():
    red, green, blue = (
        np.where(c <= 0.04045, c / 12.92, ((c + 0.055) / 1.055) ** 2.4) for c in colour_scale.heat(64).T
    )
    lightness = np.cbrt(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    steps = np.diff(lightness)
    assert (steps > 0).all()
    assert steps.max() < 3 * steps.min()


@given(st.lists(st.floats(1e-5, 1), min_size=1, max_size=9))
def test_a_scale_ends_at_the_middle_word_s_largest_weight_rounded_up(largest):
    looks = np.zeros((len(largest), 4), np.float32)
    looks[:, 2] = largest
    middle = float(np.median(looks[:, 2]))
    assert middle * (1 - 1e-3) <= top(looks) <= min(middle * 1.51, 1)


def test_a_scale_of_nothing_is_a_scale():
    assert top(np.zeros((2, 3), np.float32)) == 1


# ----------------------------------------------------------------------------------------------------------- records


@pytest.mark.parametrize("trace", [over_grid(layers=2, heads=3), over_boxes(), over_grid(image=picture(5, 7, 1))])
def test_a_file_gives_back_the_trace(trace, tmp_path):
    boxes = tuple(((1.0, 2.0, 3.5, 4.0),) for _ in trace.words)
    trace = ImageTrace(trace.trace, trace.image, trace.grid, trace.boxes, boxes)
    trace.save(tmp_path / "look.json")
    again = ImageTrace.load(tmp_path / "look.json")
    assert (again.image == trace.image).all()
    assert (again.words, again.grid, again.outlines) == (trace.words, trace.grid, trace.outlines)
    assert trace.boxes is None or (again.boxes == trace.boxes).all()
    np.testing.assert_allclose(again.trace.weights, trace.trace.weights, atol=1e-6)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_png_gives_back_the_picture(channels):
    image = picture(7, 11, channels)
    assert (from_png(png(image)) == image).all()


@pytest.mark.parametrize("change", ["image", "grid", "trace", "boxes"])
def test_a_damaged_file_is_one_clear_error(change, tmp_path):
    record = over_grid().to_json()
    for wrong in (None, 3, "abcd", [1, 2, 3], base64.b64encode(png(picture())[:60]).decode()):
        if wrong is None and change == "boxes":
            continue
        (tmp_path / "look.json").write_text(json.dumps({**record, change: wrong}))
        with pytest.raises(DisplayError, match="Cannot read"):
            ImageTrace.load(tmp_path / "look.json")


def test_what_does_not_fit_is_refused():
    trace = over_grid().trace
    with pytest.raises(DisplayError, match="A grid of 2 × 5 cells does not match 15 weights per word"):
        ImageTrace(trace, picture(), (2, 5))
    with pytest.raises(DisplayError, match="give one of the two"):
        ImageTrace(trace, picture())
    with pytest.raises(DisplayError, match=re.escape("15 weights per word need boxes of shape (15, 4), got (3, 4).")):
        ImageTrace(trace, picture(), boxes=np.zeros((3, 4), np.float32))
    with pytest.raises(DisplayError, match=r"Outlines must be given for each word \(3\) or for none, got 1."):
        ImageTrace(trace, picture(), (3, 5), outlines=((),))
    for wrong in (picture().astype(float), picture(2, 2, 4), picture(2, 0), picture()[0]):
        with pytest.raises(DisplayError, match="An image must be bytes"):
            pixels_of(wrong)
    with pytest.raises(DisplayError, match="Weights must be words × rows × columns"):
        ImageTrace.of(picture(), ["a"], np.ones((1, 3)))
    with pytest.raises(DisplayError, match="There is no head 3: this model has 1, counted from 0"):
        over_grid().save("look.html", head=3)
    with pytest.raises(DisplayError, match=r"Use one of \.png, \.svg, \.pdf, \.html, \.json"):
        over_grid().save("look.gif")


# ------------------------------------------------------------------------------------------------------------ strips


@pytest.mark.parametrize("kind", ["png", "svg", "html", "json", "pdf"])
def test_the_same_trace_gives_the_same_bytes(kind, tmp_path):
    for name in ("one", "two"):
        assert over_grid().save(tmp_path / f"{name}.{kind}", title="Twice") == []
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_a_strip_has_every_word_its_strongest_weight_and_the_scale(tmp_path):
    words = ("a", "سيارة", "$x^2$", "<b>&", LONG[:12], "</s>")
    trace = over_grid(words)
    trace.save(tmp_path / "look.svg", title="$5")
    tree = ElementTree.parse(tmp_path / "look.svg")
    texts = ["".join(node.itertext()) for node in tree.iter(f"{SVG}text")]
    assert set(words[:-1]) <= set(texts)
    assert "</s>" not in texts  # a mark of the model, not a word
    look = trace.look()[:-1]
    for weights in look:
        assert f"max {weights.max():.2f}" in texts
    assert any(f"{top(look):.2f}" in text and "3 × 5 cells, 0.067 each if uniform" in text for text in texts)
    assert "$5" in texts


def test_what_is_missing_from_a_sum_is_told(tmp_path):
    whole = over_grid(("a", "b"))
    half = ImageTrace.of(whole.image, ("a", "b"), whole.trace.weights.reshape(2, 3, 5) * [[[1]], [[0.5]]])
    half.save(tmp_path / "look.svg")
    assert (tmp_path / "look.svg").read_text().count("sum 0.50") == 1


@pytest.mark.parametrize("shape", [(22, 34), (120, 9), (9, 120), (1, 1), (600, 300)])
@pytest.mark.parametrize("count", [1, 4, 60])
def test_pictures_in_a_strip_keep_the_shape_of_the_image_and_do_not_overlap(shape, count, monkeypatch):
    sheets = []
    monkeypatch.setattr("regard.viz.overlay_picture._save", lambda path, sheet: sheets.append(sheet) or [])
    over_grid([f"w{i}" for i in range(count)], image=picture(*shape)).save("look.png")
    (sheet,) = sheets
    wide, tall, places = sheet.placed()
    width, height = sheet.size.width, sheet.size.height
    assert [panel.name for panel, _, _ in places] == ["", *(f"w{i}" for i in range(count))]
    assert width / height == pytest.approx(shape[1] / shape[0])
    shown = sheet.image.shape
    assert width / height == pytest.approx(shown[1] / shown[0], rel=0.1)  # whole pixels
    for i, (_, left, up) in enumerate(places):
        assert 0 <= left <= left + width <= wide + 1e-9
        assert 0 <= up - height < up <= tall + 1e-9
        for _, other, top_of_other in places[:i]:
            assert abs(left - other) >= width or abs(up - top_of_other) >= height
    assert wide <= 10


def test_every_head_has_a_row_of_its_own(tmp_path):
    over_grid(layers=2, heads=3).save(tmp_path / "look.svg", layer=1, head="all")
    text = (tmp_path / "look.svg").read_text()
    assert [text.count(f"layer 1, head {head}") for head in range(4)] == [1, 1, 1, 0]


def test_maps_of_any_grid_stand_beside_each_other(tmp_path):
    maps = [HeatMap("shoe 97%", np.eye(4, dtype=np.float32) * 1e-6, "Grad-CAM"), HeatMap("any", np.ones((2, 7), "f"))]
    assert save_maps(picture(28, 28, 1), maps, tmp_path / "look.svg") == []
    text = (tmp_path / "look.svg").read_text()
    assert text.count("<image") == 4  # the image, two maps and the scale
    assert all(word in text for word in ("shoe 97%", "Grad-CAM", "28 × 28 px"))
    with pytest.raises(DisplayError, match="no heat map"):
        save_maps(picture(), [], tmp_path / "look.svg")
    with pytest.raises(DisplayError, match="must be rows × columns"):
        save_maps(picture(), [HeatMap("x", np.ones(3, "f"))], tmp_path / "look.svg")


# ------------------------------------------------------------------------------------------------------------- pages


class Page(HTMLParser):
    """What a page holds: that every element is closed in order, its buttons' texts, its data and its scripts."""

    VOID = ("meta", "img", "input", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.buttons, self.scripts, self.seen = [], [], [], []
        self.feed(text)
        assert self.open == []
        (data,) = [script for kind, script in self.scripts if kind == "application/json"]
        self.data = json.loads(data)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.seen.append((tag, given))
        assert not [name for name in given if name.startswith("on")]
        if tag == "script":
            self.scripts.append((given.get("type"), ""))
        if tag == "button":
            self.buttons.append("")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "button" in self.open:
            self.buttons[-1] += data
        if self.open and self.open[-1] == "script":
            kind, before = self.scripts.pop()
            self.scripts.append((kind, before + data))


KINDS = Counter(tag for tag, _ in Page(image_page(over_grid(("a",)), title="A")).seen) - Counter(button=1)
"""The elements of a page, less the word."""


@settings(max_examples=25, deadline=None)
@given(st.lists(tokens | st.sampled_from(HOSTILE), min_size=1, max_size=8), st.sampled_from(HOSTILE))
def test_a_page_holds_the_words_and_nothing_of_them_acts(words, title):
    page = Page(image_page(over_grid(words), title=title))
    assert page.buttons[: len(words)] == page.data["labels"]
    assert len(page.scripts) == 2
    assert Counter(tag for tag, _ in page.seen) == KINDS + Counter(button=len(words))


def test_a_page_has_all_weights_and_fetches_nothing():
    trace = over_grid(layers=2, heads=3)
    text = image_page(trace)
    page = Page(text)
    packed = np.frombuffer(base64.b64decode(page.data["weights"]), "<u2").reshape(page.data["shape"])
    np.testing.assert_allclose(packed / 65_535 * page.data["peak"], trace.trace.weights, atol=1e-5)
    ((_, image),) = [seen for seen in page.seen if seen[0] == "img"]
    assert (from_png(base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))) == trace.image).all()
    assert image["alt"]
    assert not re.findall(r'(?:src|href)="(?!data:)', text)
    assert "default-src 'none'" in text
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")


def test_a_page_can_be_used_without_a_mouse_and_without_motion():
    text = image_page(over_grid(layers=2, heads=3), layer=1)
    for needed in (
        "aria-live",
        "aria-pressed",
        "prefers-reduced-motion",
        "prefers-color-scheme",
        "ArrowRight",
        "<noscript>",
    ):
        assert needed in text
    selects = [given for tag, given in Page(text).seen if tag == "option" and "selected" in given]
    assert [given["value"] for given in selects] == ["1", "-1"]  # layer 1, the mean of its heads


@pytest.mark.parametrize(("words", "way"), [(("…", "كلب", "red"), "rtl"), (("a", "אדום"), "ltr"), (("1",), "ltr")])
def test_words_run_the_way_they_are_written(words, way):
    assert f'class="words" dir="{way}"' in image_page(over_grid(words))


def test_a_large_image_is_made_smaller_for_a_page():
    page = Page(image_page(over_grid(image=picture(400, 1600))))
    ((_, image),) = [seen for seen in page.seen if seen[0] == "img"]
    assert (image["width"], image["height"]) == ("800", "200")


# --------------------------------------------------------------------------------------------------------- terminals


@settings(max_examples=25, deadline=None)
@given(
    st.lists(tokens | st.just(LONG), min_size=1, max_size=8),
    st.integers(10, 140),
    st.booleans(),
    st.sampled_from([(22, 34), (200, 9), (9, 200), (1, 1), (64, 64)]),
    st.sampled_from([(1, 1), (3, 5), (7, 2)]),
)
def test_a_terminal_is_never_written_beyond_its_width(words, width, color, shape, grid):
    drawn = over_grid(words, *grid, image=picture(*shape)).render(width, color)
    plain = ANSI.sub("", drawn)
    assert max(map(cells, plain.split("\n"))) <= max(width, 20)
    assert "\x1b" not in plain
    assert color or drawn == plain
    assert color or "▀" not in drawn


def test_colours_are_those_of_the_overlay(monkeypatch):
    monkeypatch.setenv("COLORTERM", "truecolor")
    image = np.full((4, 8, 3), 90, np.uint8)
    trace = ImageTrace.of(image, ["x"], np.array([[[1.0, 0.0]]]))
    blocks = trace.render(40, True).split("\n")[0]
    heat = [tuple(map(int, found)) for found in re.findall(r"38;2;(\d+);(\d+);(\d+)", blocks)]
    assert heat[0] == (90, 90, 90)  # the image as it is, before the words
    assert sum(heat[1]) > sum(heat[-1])  # brighter where it looks, at the left
    monkeypatch.setenv("COLORTERM", "")
    assert re.search(r"\x1b\[38;5;\d+;48;5;\d+m▀", trace.render(40, True))
    assert "38;2" not in trace.render(40, True)


def test_without_colour_the_strongest_character_is_where_it_looks():
    weights = np.zeros((1, 3, 5))
    weights[0, 2, 1] = 1
    lines = ImageTrace.of(picture(30, 50), ["x"], weights).render(80).split("\n")
    rows, columns = np.nonzero([[char == "█" for char in line.ljust(30)] for line in lines[:-1]])
    height, width = len(lines) - 3, len(lines[0])
    assert 2 / 3 <= (rows.mean() + 0.5) / height <= 1
    assert 1 / 5 <= (columns.mean() + 0.5) / width <= 2 / 5
