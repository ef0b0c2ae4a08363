"""The compiled library is made once, and everything works without it."""

import os
import subprocess
import sys

import pytest

from regard.native import library as module
from regard.native.library import Library, library

NO_COMPILER = "no C++ compiler (c++-that-is-not-there): decoding takes longer"


@pytest.fixture(autouse=True)
def _forget():
    module._load.cache_clear()
    yield
    module._load.cache_clear()


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
    assert library() == Library(None, f"{broken} cannot compile it (it needs C++20): decoding takes longer")
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


def test_translations_are_the_same_without_it():
    """In a process of its own, which has no compiler."""
    code = "from regard.doctor import examine\nprint({found.what: found.found for found in examine()}['decoding'])\n"
    environment = os.environ | {"CXX": "c++-that-is-not-there"}
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert told.stdout == f"in Python: {NO_COMPILER}\n"
