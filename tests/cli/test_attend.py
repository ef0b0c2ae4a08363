"""`regard attend`: the picture in the terminal and in files, and what it refuses."""

import json
import re
import sys

import pytest

import regard as package
from regard.cli import options
from regard.data.pair import Pair
from regard.viz.trace import AttentionTrace

SENTENCE = "the small dog that she sees does not sleep because the old cat is in the garden"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def test_the_translation_comes_first_and_the_picture_fits_80_columns(regard, trained):
    ran = regard("attend", trained, SENTENCE, "--beam", "2")
    assert (ran.code, ran.err) == (0, "")
    translation = package.load(trained).translate([SENTENCE], beam=2)[0]
    assert ran.lines[0] == translation.text
    assert "\n".join(ran.lines[1:]) == translation.attention.render(80)
    assert max(map(len, ran.lines[1:])) <= 80
    assert "\x1b" not in ran.out


@pytest.mark.parametrize("width", ["20", "33", "200"])
def test_the_width_can_be_chosen(regard, trained, width):
    ran = regard("attend", trained, SENTENCE, "--width", width, "--target", "le petit chien")
    assert ran.code == 0
    assert max(map(len, ran.lines[1:])) <= int(width)


def test_colour_when_asked_for_and_what_it_shows_is_the_same_text(regard, trained):
    plain = regard("attend", trained, "the dog", "--target", "le chien", "--no-color")
    coloured = regard("attend", trained, "the dog", "--target", "le chien", "--color")
    assert "\x1b[48;5;" in coloured.out
    assert "\x1b" not in plain.out
    for word in ("the", "le", "</s>"):
        assert word in ESCAPE.sub("", coloured.out)


@pytest.mark.parametrize(
    ("environment", "terminal", "asked", "colour"),
    [
        ({}, True, None, True),
        ({}, False, None, False),
        ({"NO_COLOR": "1"}, True, None, False),
        ({"NO_COLOR": ""}, True, None, True),
        ({"TERM": "dumb"}, True, None, False),
        ({"NO_COLOR": "1"}, False, True, True),
        ({}, True, False, False),
    ],
)
def test_when_there_is_colour(monkeypatch, environment, terminal, asked, colour):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: terminal, raising=False)
    assert options.wants_color(asked) == colour


def test_a_target_is_looked_at_as_given(regard, trained):
    ran = regard("attend", trained, "the dog", "--target", "un chat noir")
    assert ran.lines[0] == "un chat noir"
    assert len(ran.lines) >= 1 + 4 + 1  # a row for each of the three words and the end mark, and the legend


def test_where_each_token_came_from_is_shown_of_a_target_and_of_what_it_writes(regard, trained):
    translator = package.load(trained)
    given = translator.align([Pair("the dog", "le chien")], posterior=True)[0]
    (own,) = translator.translate(["the dog"], posterior=True)
    for more, text, trace in ((("--target", "le chien"), "le chien", given), ((), own.text, own.attention)):
        ran = regard("attend", trained, "the dog", *more, "--posterior")
        assert (ran.code, ran.err) == (0, "")
        assert ran.out == f"{text}\n{trace.render(80)}\n"
        assert ran.lines[-1].endswith(" · posterior")
        assert ran.out != regard("attend", trained, "the dog", *more).out


def test_nothing_is_searched_for_a_target(refused, trained):
    for option, value in (("prefix", "le"), ("beam", "2"), ("set", "decoding.beam=2")):
        assert refused("attend", trained, "the dog", "--target", "le chien", f"--{option}", value) == (
            f"--{option} is for a search, and with --target nothing is searched."
        )


@pytest.mark.parametrize(
    ("suffix", "begins"),
    [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF"), ("json", b"{"), ("PNG", b"\x89PNG")],
)
def test_it_is_written_in_every_form(regard, trained, here, suffix, begins):
    if suffix != "json":
        pytest.importorskip("matplotlib")
    ran = regard("attend", trained, "the dog", "--out", f"look.{suffix}")
    assert (ran.code, ran.err) == (0, f"Wrote look.{suffix}\n")
    assert (here / f"look.{suffix}").read_bytes().startswith(begins)
    assert [path.name for path in here.iterdir()] == [f"look.{suffix}"]


def test_several_files_at_once_and_the_json_is_the_trace(regard, trained, here):
    ran = regard("attend", trained, "the xyzzy", "--out", "a.json", "--out", "b.json")
    assert ran.err == "Wrote a.json\nWrote b.json\n"
    trace = AttentionTrace.load(here / "a.json")
    assert trace.source == ("the", "<unk>", "</s>")
    assert len(trace.candidates[0]) == 5
    assert json.loads((here / "b.json").read_text()) == trace.to_json()


@pytest.mark.parametrize("layer", ["0", "-1"])
def test_the_only_layer_is_the_mean(regard, trained, layer):
    every, one = (regard("attend", trained, "the dog", *given) for given in ((), ("--layer", layer, "--head", "0")))
    assert one.lines[:-1] == every.lines[:-1]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("",), "The sentence is empty: there is nothing to look at."),
        ((" \u3000\n",), "The sentence is empty: there is nothing to look at."),
        (("caf\udce9",), "The sentence is not valid UTF-8: 'caf\\udce9'."),
        (("the dog", "--target", " "), "The target is empty: there is nothing to look at."),
        (("the dog", "--layer", "1"), "There is no layer 1: this model has 1, counted from 0."),
        (("the dog", "--head", "-2"), "There is no head -2: this model has 1, counted from 0."),
        (("the dog", "--beam", "0"), "--beam is 0; it must be at least 1."),
        (("the dog", "--width", "19"), "--width is 19; it must be at least 20."),
        (
            ("the dog", "--out", "look.bmp"),
            "Cannot save look.bmp: files of kind '.bmp' cannot be written. Use one of .png, .svg, .pdf, .html, .json.",
        ),
        (
            ("the dog", "--out", "look"),
            "Cannot save look: a file without a suffix cannot be written. Use one of .png, .svg, .pdf, .html, .json.",
        ),
        (("the dog", "--out", "no/look.png"), "Cannot write no/look.png: there is no folder no."),
        (("the dog", "--out", "a.json", "--out", "no/b.json"), "Cannot write no/b.json: there is no folder no."),
    ],
)
def test_refusals_print_nothing_and_write_nothing(regard, refused, trained, here, given, message):
    assert refused("attend", trained, *given) == message
    assert regard("attend", trained, *given).out == ""
    assert [*here.iterdir()] == []


def test_a_model_without_attention_has_nothing_to_show(regard, refused, corpus, here, tiny):
    assert (
        regard("train", "--data", corpus / "pairs.tsv", "--out", "m", *tiny, "--set", "model.attention=none").code == 0
    )
    assert refused("attend", "m", "the dog") == "This model has no attention, so there is nothing to show."
    assert regard("translate", "m", stdin=b"the dog\n").code == 0
    assert "AER" not in regard("evaluate", "m", "--data", corpus / "pairs.tsv", "--beam", "1").out


def test_a_prefix_is_obeyed(regard, trained):
    ran = regard("attend", trained, "the cat", "--prefix", "le", "--set", "decoding.max_length=4")
    assert ran.code == 0, ran.err
    assert ran.lines[0].startswith("le ")


def test_many_layers_and_heads_can_be_looked_at_alone_or_together(regard, transformer, here):
    ran = regard("attend", transformer, "the dog", "--target", "le chien", "--out", "a.json")
    assert ran.code == 0, ran.err
    assert ran.lines[-1].endswith("mean of 3 layers × 2 heads")
    trace = AttentionTrace.load(here / "a.json")
    assert trace.weights.shape[:2] == (3, 2)
    every = regard("attend", transformer, "the dog", "--target", "le chien", "--heads")
    legends = [line.partition("score")[2].partition(" · ")[2] for line in every.lines if "score" in line]
    assert legends == [f"layer {layer} · head {head}" for layer in range(3) for head in range(2)]
    shown = [
        regard("attend", transformer, "the dog", "--target", "le chien", *given) for given in ((), ("--layer", "1"))
    ]
    assert shown[0].out != shown[1].out
    one = regard("attend", transformer, "the dog", "--target", "le chien", "--layer", "2", "--head", "1")
    assert one.lines[1:] == every.lines[-len(one.lines[1:]) :]
    layer = regard("attend", transformer, "the dog", "--target", "le chien", "--heads", "--layer", "2")
    assert layer.lines[1:] == every.lines[-len(layer.lines[1:]) :]


@pytest.mark.parametrize("given", [("--heads",), ("--heads", "--layer", "1"), ("--layer", "1"), ("--head", "1")])
def test_a_picture_shows_what_was_asked_for(regard, transformer, here, given):
    pytest.importorskip("matplotlib")
    ran = regard("attend", transformer, "the dog", "--target", "le chien", "--out", "a.svg", *given)
    assert (ran.code, ran.err) == (0, "Wrote a.svg\n")
    names = [f"layer {layer} · head {head}" for layer in range(3) for head in range(2)]
    text = (here / "a.svg").read_text(encoding="utf-8")
    shown = [name for name in names if name in text]
    assert shown == ([] if "--heads" not in given else names[2:4] if "--layer" in given else names)


def test_several_models_look_one_after_the_other(regard, trained, another, here):
    ran = regard("attend", trained, "the dog", "--with", another, "--target", "le chien", "--out", "a.json")
    assert ran.code == 0, ran.err
    both = AttentionTrace.load(here / "a.json")
    assert both.weights.shape[:2] == (2, 1)
    first = package.load(trained).align([Pair("the dog", "le chien")])[0]
    assert abs(both.look(layer=0) - first.look()).max() < 1e-5


def test_what_cannot_be_looked_at_by_heads(refused, trained, language_model):
    assert refused("attend", trained, "the dog", "--head", "0", "--heads") == "Give either --head or --heads, not both."
    assert refused("attend", language_model, "le chien") == (
        "This model has no attention, so there is nothing to show."
    )
    assert refused("attend", language_model, "le chien", "--prefix", "le") == (
        f"Leave out --prefix: {language_model} holds a language model, which reads no source."
    )
    assert refused("attend", language_model, "le chien", "--posterior") == (
        f"Leave out --posterior: {language_model} holds a language model, which reads no source."
    )


def test_any_method_can_be_looked_at(regard, trained):
    ran = regard("attend", trained, "the dog", "--set", "decoding.method=mbr", "--set", "decoding.samples=3")
    assert ran.code == 0, ran.err
