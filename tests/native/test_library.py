"""The compiled library is made once, and everything works without it."""

import logging
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from regard.config_io import override
from regard.data.tokenizers import Tokenizers, Words
from regard.decoding.translator import Translator
from regard.models.build import build_model
from regard.native import library as module
from regard.native.library import Library, library
from regard.presets import preset

NO_COMPILER = "no C++ compiler (c++-that-is-not-there): install one, or a wheel of regard that has the library"


@pytest.fixture(autouse=True)
def _forget():
    for cached in (module._load, module._tell):
        cached.cache_clear()
    yield
    for cached in (module._load, module._tell):
        cached.cache_clear()


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setenv("REGARD_NATIVE", "0")
    assert library() == Library(None, "switched off by REGARD_NATIVE=0")
    assert not library().offers("float32")


def test_without_a_compiler_there_is_none(monkeypatch):
    monkeypatch.setenv("CXX", "c++-that-is-not-there")
    assert library() == Library(None, NO_COMPILER)


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    broken = tmp_path / "c++"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("CXX", str(broken))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert library() == Library(None, f"{broken} cannot compile it: it needs C++20, as g++ 10 and clang++ 12 have it")
    assert list((tmp_path / "cache" / "regard").iterdir()) == []


def test_a_cache_that_cannot_be_written(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CXX", sys.executable)  # something that is there: it is never called
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert library().calls is None
    assert "Not a directory" in library().words


def test_what_is_in_the_cache_is_not_made_again(monkeypatch):
    if library().calls is None:
        pytest.skip("no C++ compiler")
    module._load.cache_clear()
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("compiled again"))
    assert library().calls is not None


def test_what_is_slower_is_said_once(monkeypatch, caplog):
    monkeypatch.setenv("CXX", "c++-that-is-not-there")
    translations("bahdanau2014-small")
    translations("luong2015-small")
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (
            logging.WARNING,
            f"Beam search runs in Python, which is slower: {NO_COMPILER}. regard doctor tells whether it is mended; "
            "REGARD_NATIVE=0 keeps this quiet.",
        )
    ]


def test_nothing_is_said_where_it_is_switched_off(monkeypatch, caplog):
    monkeypatch.setenv("CXX", "c++-that-is-not-there")
    monkeypatch.setenv("REGARD_NATIVE", "0")
    translations("bahdanau2014-small")
    assert not caplog.records


@pytest.mark.parametrize(("name", "value"), [("REGARD_NATIVE", "0"), ("CXX", "c++-that-is-not-there")])
@pytest.mark.parametrize("kind", ["bahdanau2014-small", "luong2015-small", "transformer2017-small"])
def test_translations_are_the_same_without_it(monkeypatch, kind, name, value):
    if library().calls is None:
        pytest.skip("no C++ compiler")
    with_it, engine = translations(kind)
    assert engine is not None
    monkeypatch.setenv(name, value)
    without, engine = translations(kind)
    assert engine is None
    assert len({one.text for one in without}) > len(without) // 2  # they say something
    assert [one.text for one in with_it] == [one.text for one in without]
    for ours, plain in zip(with_it, without, strict=True):
        assert ours.score == pytest.approx(plain.score, rel=1e-4)
        np.testing.assert_allclose(ours.attention.weights, plain.attention.weights, atol=1e-4)


def translations(kind):
    """Translate with a model of strong opinions; return what it wrote, and what searched for it."""
    words = Tokenizers(*(Words([f"{letter}{number}" for number in range(40)]) for letter in "st"))
    torch.manual_seed(3)
    narrow = [f"model.{key}=16" for key in ("embedding", "encoder.width", "decoder.width", "decoder.readout_width")]
    config = override(preset(kind), [*narrow, "model.tie=none", "decoding.beam=4", "decoding.max_length=12"])
    model = build_model(config.model, words.source.size, words.target.size).eval()
    with torch.no_grad():
        model.decoder.output.weight.mul_(4.0)
    translator = Translator(model, words, config.decoding)
    found = translator.translate([" ".join(f"s{n * at % 41}" for at in range(1, 2 + n % 7)) for n in range(1, 14)])
    ((*_, engine),) = translator._engines._made.values()
    return found, engine


def test_doctor_says_that_there_is_none():
    """In a process of its own, which has no compiler."""
    code = "from regard.doctor import examine\nprint({found.what: found.found for found in examine()}['decoding'])\n"
    environment = os.environ | {"CXX": "c++-that-is-not-there"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout == f"in Python, which is slower: {NO_COMPILER}\n"
