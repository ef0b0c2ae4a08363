"""`regard list`, `regard doctor`, and what the shell offers."""

import importlib
import importlib.util
import re
from pathlib import Path

import pytest

import regard as package
from regard import __version__
from regard.cli import completion
from regard.cli.list import BESIDE, KINDS, SETTINGS
from regard.config_io import describe
from regard.data.builtin_corpora import corpora, pictured
from regard.prepacked_matmul import multiplies_bfloat16


@pytest.mark.parametrize("kind", [*KINDS])
def test_every_kind_lists_its_registry_with_a_line_about_each(regard, kind):
    names = []
    for place in (KINDS[kind], *filter(None, [BESIDE.get(kind)])):
        module, _, name = place.partition(":")
        registry = getattr(importlib.import_module(module), name)
        assert registry.plural == kind
        names += registry
    ran = regard("list", kind)
    assert (ran.code, ran.err) == (0, "")
    assert [line.split()[0] for line in ran.lines] == names
    assert all(len(line.split()) > 2 for line in ran.lines)


def test_every_registry_of_the_package_is_listed():
    """An error's `(regard list scores shows all)` must be true of every registry there is."""
    source = "".join(path.read_text(encoding="utf-8") for path in Path(package.__file__).parent.rglob("*.py"))
    plurals = re.findall(r'= Registry\(\s*"[a-z ]+",\s*"([a-z]+)"\s*\)', source)
    assert len(plurals) >= 12
    assert {*plurals} == {*KINDS}
    assert [kind for kind in KINDS if plurals.count(kind) > 1 and kind != "scores"] == [*BESIDE]  # scores: an example


def test_corpora_of_pictures_are_listed_among_the_others(regard):
    assert {*corpora, *pictured} == {line.split()[0] for line in regard("list", "corpora").lines}
    assert {"scenes", "fashion-mnist"} == {*pictured}


def test_settings_are_listed_with_help_and_default(regard):
    lines = regard("list", "settings").lines
    assert [line.split()[0] for line in lines] == [setting.name for setting in describe()]
    shown = {line.split()[0]: line for line in lines}
    assert shown["tokenizer.joint"].endswith(" [true]")
    assert shown["training.learning_rate"].endswith(" [0.001]")
    assert shown["tokenizer.kind"].endswith(' ["bpe"]')
    assert shown["data.train"].endswith("or an embedded name.")


def test_everything_is_listed_under_its_kind(regard):
    lines = regard("list").lines
    assert [line for line in lines if line and not line.startswith(" ")] == [*KINDS, SETTINGS]
    assert sum(line.startswith("  ") for line in lines) == sum(
        len(regard("list", kind).lines) for kind in (*KINDS, SETTINGS)
    )


def test_an_unknown_kind(refused):
    every = ", ".join((*KINDS, SETTINGS))
    assert refused("list", "score") == f"There are no 'score' to list. Did you mean 'scores'? There are: {every}."
    assert refused("list", "xyzzy") == f"There are no 'xyzzy' to list. There are: {every}."


def test_the_doctor_tells_versions_and_devices(regard):
    ran = regard("doctor")
    assert (ran.code, ran.err) == (0, "")
    found = dict(line.split(maxsplit=1) for line in ran.lines)
    assert found["regard"] == __version__
    assert {"Python", "torch", "numpy", "sentencepiece", "matplotlib", "CPU", "GPU", "distributed", "decoding"} <= {
        *found
    }
    assert "gloo" in found["distributed"]
    assert ("uses it" if multiplies_bfloat16() else "uses float32") in found["training"]


def test_the_doctor_says_how_to_get_what_is_missing(regard, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "matplotlib" else real(name))
    assert "not installed: pip install 'regard[plot]'" in regard("doctor").out


def test_the_shell_offers_what_begins_so():
    assert [name for name, _ in completion.preset_names("sutsk")] == ["sutskever2014", "sutskever2014-small"]
    assert [name for name, _ in completion.assignments("training.ep")] == ["training.epochs=", "training.epochs=20"]
    assert len(completion.assignments("")) == len([*describe()])
    assert completion.kinds("sc") == ["scores", "schedules"]
    assert {"decoding.method=", "decoding.top_k="} <= {name for name, _ in completion.decoding_assignments("")}
    assert completion.decoding_assignments("training.") == []
    assert completion.devices("c") == ["cpu", "cuda"]
    assert [name for name, _ in completion.several_presets("gpt,cho")] == ["gpt,cho2014", "gpt,cho2014-small"]
    assert completion.assignments("model.encoder.norm=p") == [
        ("model.encoder.norm=pre", ""),
        ("model.encoder.norm=post", ""),
    ]


FREE = {"preset", "started_from", "data.to_language", "decoding.keep"}


def test_every_setting_that_is_a_name_is_completed():
    """Its own value is among what is offered, unless it is any text."""
    for setting in describe():
        if setting.type == "a text" and setting.name not in FREE:
            offered = [name for name, _ in completion.assignments(f"{setting.name}=")]
            assert offered, setting.name
            if setting.default not in ("none", ""):
                assert f"{setting.name}={setting.default}" in offered


def test_the_shell_offers_values_that_have_names():
    assert completion.assignments("model.attention.score=co") == [
        ("model.attention.score=concat", ""),
        ("model.attention.score=cosine", ""),
    ]
    assert [name for name, _ in completion.decoding_assignments("decoding.method=m")] == ["decoding.method=mbr"]
    assert completion.assignments("model.variational=t") == [("model.variational=true", "")]
    assert completion.assignments("training.epochs=") == completion.assignments("trainin.epochs=") == []


@pytest.mark.parametrize("setting", completion.NAMED)
def test_the_values_offered_are_those_registered(setting):
    places = {place.rpartition(":")[2]: place for place in KINDS.values()}
    module, _, name = places[completion.NAMED[setting]].partition(":")
    registered = getattr(importlib.import_module(module), name)
    assert sorted(value.partition("=")[2] for value, _ in completion.assignments(f"{setting}=")) == sorted(registered)
