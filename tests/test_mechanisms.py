"""Every mechanism has a page, made of its docstring, of what was measured, and of words that nothing measures."""

import importlib.util
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("bench_mechanisms", ROOT / "bench" / "mechanisms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_mechanism_has_its_words_and_no_words_are_left_over(bench):
    texts = tomllib.loads((ROOT / "docs" / "mechanisms" / "texts.toml").read_text(encoding="utf-8"))
    written = {f"{kind}-{name}" for kind, entries in texts.items() for name in entries}
    assert written == {mechanism.key for mechanism in bench.mechanisms()}
    for entries in texts.values():
        for entry in entries.values():
            assert set(entry) == {"title", "when", "cost"}
            assert all(text.strip() and (key == "title" or text.endswith(".")) for key, text in entry.items())


def test_the_pages_are_current_and_every_mechanism_has_one_with_its_picture(bench):
    pages = bench.pages()
    assert set(pages) == {"README.md", *(f"{mechanism.key}.md" for mechanism in bench.mechanisms())}
    for name, text in pages.items():
        page = (bench.DOCS / name).read_text(encoding="utf-8")
        assert page == text, f"{name}: run python bench/mechanisms.py pages"
        if name != "README.md":
            assert (bench.IMAGES / name.replace(".md", ".png")).is_file()
            assert "## When to use it" in page
            assert "## What it costs" in page


def test_every_mechanism_s_settings_are_settings(bench):
    from regard.config_io import override

    for mechanism in bench.mechanisms():
        assert override(mechanism.base(), mechanism.changes) is not None


def test_equations_of_docstrings_become_blocks(bench):
    from regard.attention.score import Dot

    page = bench.from_docstring(Dot)
    assert page.startswith("Score by the inner product")
    assert "\n```math\n\\mathrm{score}(h_t, \\bar h_s) = h_t^\\top \\bar h_s\n```\n" in page
