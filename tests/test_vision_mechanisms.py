"""Every mechanism that sees has a page, made of its docstring, of what was measured, and of words."""

import importlib
import sys
import tomllib
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from regard.config_io import override, to_toml

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bench():
    sys.path.insert(0, str(ROOT / "bench"))
    try:
        return importlib.import_module("vision_mechanisms")
    finally:
        sys.path.remove(str(ROOT / "bench"))


def test_every_mechanism_has_its_words_and_no_words_are_left_over(bench):
    texts = tomllib.loads((ROOT / "docs" / "mechanisms" / "vision.toml").read_text(encoding="utf-8"))
    written = {f"{kind}-{name}" for kind, entries in texts.items() for name in entries}
    assert written == {mechanism.key for mechanism in bench.mechanisms()}
    for entry in (entry for entries in texts.values() for entry in entries.values()):
        assert set(entry) - {"limits"} == {"title", "when", "cost"}
        assert all(text.strip() and (key == "title" or text.endswith(".")) for key, text in entry.items())


def test_the_pages_are_current_and_have_small_pictures(bench):
    pages = bench.pages()
    drawn = [one.key for one in bench.mechanisms() if (bench.IMAGES / f"{one.key}.png").is_file()]
    assert drawn
    assert set(pages) == {"vision.md", *(f"{key}.md" for key in drawn)}
    for name, text in pages.items():
        page = (bench.DOCS / name).read_text(encoding="utf-8")
        assert page == text, f"{name}: run python bench/vision_mechanisms.py pages"
        if name != "vision.md":
            assert (bench.IMAGES / name.replace(".md", ".png")).stat().st_size < 60_000


def test_every_system_can_be_built(bench):
    shown = {mechanism.system for mechanism in bench.mechanisms()}
    assert shown <= {system.name for system in bench.systems()}
    for system in bench.systems():
        assert system.config.model.image is not None


def test_what_recipes_make_is_not_trained_here_and_no_other_model_is_shown_in_its_place(bench, tmp_path, capsys):
    made = {system.name: system for system in bench.systems() if system.variant is not None}
    assert {"xu2015-soft", "xu2015-hard", "asker", "carion2020"} <= set(made)
    assert bench.train_one(made["asker"], tmp_path, {}) is None
    assert "--model asker=FOLDER" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    other = tmp_path / "other"
    other.mkdir()
    (other / "config.toml").write_text(to_toml(override(made["asker"].config, ["model.image.layers=1"])), "utf-8")
    with pytest.raises(SystemExit, match="is not what is shown as asker"):
        bench.measure(made["asker"], other)
    assert bench.a_model(f"asker={other}") == ("asker", other)
    for wrong in ("asker", f"asker={tmp_path}", f"nobody={other}"):
        with pytest.raises(ArgumentTypeError, match="NAME=FOLDER"):
            bench.a_model(wrong)
