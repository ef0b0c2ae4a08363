import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections import Counter

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from regard.errors import DisplayError
from regard.viz import colour_scale, fonts
from regard.viz.heatmap_figure import save_picture
from regard.viz.token_labels import friendly
from regard.viz.trace import AttentionTrace

from .fakes import dress, make_trace, tokens

SVG = "{http://www.w3.org/2000/svg}"


def texts(path) -> Counter[str]:
    return Counter("".join(node.itertext()) for node in ElementTree.parse(path).iter(f"{SVG}text"))


@settings(max_examples=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(st.lists(tokens, max_size=9), st.lists(tokens, max_size=9))
def test_an_svg_has_all_tokens_as_text(tmp_path_factory, source, target):
    trace = make_trace([*source, "</s>"], [*target, "</s>"])
    path = tmp_path_factory.mktemp("look") / "look.svg"
    save_picture(trace, path)
    wanted = Counter([*friendly(trace.source, trace.special), *friendly(trace.target, trace.special)])
    assert not wanted - texts(path)


def test_tokens_are_neither_mathematics_nor_markup(tmp_path):
    save_picture(make_trace(["$x^2$", "a_b", "</s>"], ["<b>&amp;", "\\frac"]), tmp_path / "look.svg", title="$5 or $6")
    assert {"$x^2$", "a_b", "</s>", "<b>&amp;", "\\frac", "$5 or $6"} <= set(texts(tmp_path / "look.svg"))


def test_colour_stands_below_its_source_and_beside_its_target(tmp_path):
    looked = {"u": "c", "v": "a", "w": "d"}
    weights = np.array([[float(s == looked[t]) for s in "abcd"] for t in "uvw"], dtype=np.float32)
    save_picture(AttentionTrace(tuple("abcd"), tuple("uvw"), weights[None, None], (), 0.0), tmp_path / "look.svg")
    tree = ElementTree.parse(tmp_path / "look.svg")
    place = {node.text: (float(node.get("x")), float(node.get("y"))) for node in tree.iter(f"{SVG}text")}
    strongest = "#" + "".join(f"{round(part * 255):02x}" for part in colour_scale.colours()[-1])
    found = {}
    for node in tree.iter(f"{SVG}path"):
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", node.get("d"))]
        if strongest not in node.get("style", "") or len(numbers) < 8:
            continue
        x, y = np.mean(numbers[0:8:2]), np.mean(numbers[1:8:2])
        source = min("abcd", key=lambda token: abs(place[token][0] - x))
        found[min("uvw", key=lambda token: abs(place[token][1] - y))] = source
    assert found == looked


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_the_same_trace_gives_the_same_bytes(tmp_path, kind):
    trace = make_trace(["▁robe", "s", "платье", "</s>"], ["a", "b"])
    for name in ("one", "two"):
        assert trace.save(tmp_path / f"{name}.{kind}", title="Twice") == []
    assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_drawing_leaves_no_state_behind_and_no_process_matters(tmp_path):
    program = f"""
import sys, matplotlib
from regard.viz.trace import AttentionTrace
assert "matplotlib.font_manager" not in sys.modules
matplotlib.rcParams["font.size"] = 31.0
before = matplotlib.rcParams.copy()
AttentionTrace.load({str(tmp_path / "look.json")!r}).save({str(tmp_path / "there.svg")!r})
assert dict.__eq__(matplotlib.rcParams, before)
assert "matplotlib.pyplot" not in sys.modules
"""
    trace = make_trace(["the", "<unk>", "dress", "</s>"], ["la", "robe", "</s>"])
    trace.save(tmp_path / "look.json")
    AttentionTrace.load(tmp_path / "look.json").save(tmp_path / "here.svg")
    subprocess.run(
        [sys.executable, "-c", program], check=True, env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "7"}
    )
    assert (tmp_path / "here.svg").read_bytes() == (tmp_path / "there.svg").read_bytes()


def test_panels_are_named_and_outer_ones_labelled(tmp_path):
    trace = make_trace(["a", "b"], ["x"], layers=2, heads=3)
    save_picture(trace, tmp_path / "look.svg", layer="all", head="all")
    found = texts(tmp_path / "look.svg")
    assert all(found[f"layer {i} · head {j}"] == 1 for i in range(2) for j in range(3))
    assert (found["a"], found["b"], found["x"]) == (3, 3, 2)
    save_picture(trace, tmp_path / "look.svg", layer="all")
    found = texts(tmp_path / "look.svg")
    assert found["layer 0"] == found["layer 1"] == found["x"] == 1
    save_picture(trace, tmp_path / "look.svg", head=2, title="One $ of it")
    found = texts(tmp_path / "look.svg")
    assert found["score -1.25 · head 2 · mean of 2 layers"] == found["One $ of it"] == 1


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_other_kinds_are_what_they_say(tmp_path, kind):
    dress().save(tmp_path / f"LOOK.{kind.upper()}")
    assert (tmp_path / f"LOOK.{kind.upper()}").read_bytes()[:5].strip(b"\x89-\r") in (b"PNG", b"%PDF")


@pytest.mark.parametrize("choice", [{}, {"layer": "all"}, {"head": "all"}])
def test_no_attention_no_picture(tmp_path, choice):
    trace = AttentionTrace(("a",), ("x",), np.zeros((0, 0, 1, 1), dtype=np.float32), (), 0.0)
    with pytest.raises(DisplayError, match=r"^This model has no attention, so there is nothing to show\.$"):
        trace.save(tmp_path / "look.png", **choice)


def test_no_tokens_no_picture(tmp_path):
    trace = AttentionTrace(("a",), (), np.zeros((1, 1, 0, 1), dtype=np.float32), (), 0.0)
    expected = "There is nothing to draw: the trace has 1 source and 0 target tokens."
    with pytest.raises(DisplayError, match=f"^{expected}$"):
        trace.save(tmp_path / "look.png")


def test_without_matplotlib_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    expected = re.escape("Pictures need matplotlib: pip install 'regard[plot]'.")
    with pytest.raises(DisplayError, match=f"^{expected}$"):
        dress().save(tmp_path / "look.png")


@pytest.fixture
def bare_machine(monkeypatch):
    """A machine where only the fonts that come with matplotlib are installed."""
    fonts._choose.cache_clear()
    monkeypatch.setattr(fonts, "_families", lambda region: [])
    monkeypatch.setattr(fonts, "_new_families", lambda region: [])
    yield
    fonts._choose.cache_clear()


@pytest.mark.usefixtures("bare_machine")
def test_letters_without_a_font_are_named_and_the_picture_is_written(tmp_path):
    trace = make_trace(["dress", "</s>"], ["赤い", "服", "。", "</s>"])
    assert trace.save(tmp_path / "look.png", quiet=True) == [
        "No installed font has 。 い 服 赤 (CJK, hiragana): they are drawn as boxes. "
        "Install one that has them, for example from the Debian package fonts-noto-cjk."
    ]
    assert trace.save(tmp_path / "look.svg", quiet=True) == [
        "No installed font has 。 い 服 赤 (CJK, hiragana): they show where the viewer has one. "
        "Install one that has them, for example from the Debian package fonts-noto-cjk."
    ]
    assert (tmp_path / "look.png").stat().st_size > 1000


@pytest.mark.usefixtures("bare_machine")
def test_many_missing_letters_are_counted_and_each_script_has_its_package(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "shapes_text", lambda: True)
    trace = make_trace(["नमस्ते", "สวัสดี", "🦜"], ["한국어"])
    (note,) = trace.save(tmp_path / "look.pdf", quiet=True)
    assert "more characters (devanagari, emoji, hangul, thai): they are drawn as boxes." in note
    assert note.endswith("from the Debian package fonts-noto-cjk and fonts-symbola and fonts-noto-core.")


@pytest.mark.usefixtures("bare_machine")
def test_what_matplotlib_itself_misses_is_told_too(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "choose_fonts", lambda texts: fonts.FontChoice((fonts.FIRST,), frozenset()))
    (note,) = make_trace(["x"], ["服"]).save(tmp_path / "look.png", quiet=True)
    assert note.startswith("No installed font has 服 (CJK): they are drawn as boxes.")


@pytest.mark.usefixtures("bare_machine")
def test_accents_cyrillic_greek_and_arabic_need_no_other_font(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "shapes_text", lambda: True)
    trace = make_trace(["Straße", "œuvre", "ąęłń", "Việt"], ["платье", "φόρεμα", "البيت", "שלום"])
    assert trace.save(tmp_path / "look.png") == []


def test_unjoined_letters_are_owned_up_to(tmp_path, monkeypatch):
    monkeypatch.setattr(fonts, "shapes_text", lambda: False)
    monkeypatch.setattr("matplotlib.__version__", "3.10.0")
    trace = make_trace(["house"], ["البيت"])
    assert trace.save(tmp_path / "look.png", quiet=True) == [
        "matplotlib 3.10.0 writes Arabic letters unjoined and in the wrong order: "
        "pip install -U 'matplotlib>=3.11', or save as .svg."
    ]
    assert trace.save(tmp_path / "look.svg", quiet=True) == []


def test_a_font_that_has_the_letter_is_found():
    fonts._choose.cache_clear()
    other = min(fonts._characters("STIXGeneral") - fonts._characters(fonts.FIRST))
    choice = fonts.choose_fonts([chr(other)])
    assert choice.missing == frozenset()
    assert choice.families[0] == fonts.FIRST
    assert other in fonts._characters(choice.families[-1])


def test_last_resorts_are_not_taken_for_fonts():
    assert not [name for name in fonts._families("SC") if name.startswith("Last Resort")]


def test_stronger_is_darker_in_pictures_and_brighter_in_a_terminal():
    grey = colour_scale.colours() ** 2.2 @ [0.2126, 0.7152, 0.0722]
    assert (np.diff(grey) < 0).all()
    assert grey[0] > 0.9
    assert grey[-1] < 0.05
    steps = [0, 95, 135, 175, 215, 255]

    def light(entry: int) -> float:
        if entry >= 232:
            return ((8 + 10 * (entry - 232)) / 255) ** 2.2
        red, green, blue = steps[(entry - 16) // 36], steps[(entry - 16) // 6 % 6], steps[(entry - 16) % 6]
        return float(np.dot((np.array([red, green, blue]) / 255) ** 2.2, [0.2126, 0.7152, 0.0722]))

    ramp = [light(entry) for entry in colour_scale.RAMP]
    assert ramp == sorted(ramp)


@pytest.mark.parametrize(
    ("largest", "top"), [(0.0, 0.1), (0.05, 0.1), (0.3, 0.3), (0.31, 0.4), (0.95, 1.0), (1.0, 1.0)]
)
def test_the_scale_ends_at_a_tenth_above_the_largest_weight(largest, top):
    assert colour_scale.top(np.array([[0.0, largest]], dtype=np.float32)) == top
