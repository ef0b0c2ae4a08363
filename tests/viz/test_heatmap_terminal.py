import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.errors import DisplayError
from regard.viz import colour_scale
from regard.viz.heatmap_terminal import heatmap
from regard.viz.token_labels import cells, for_terminal, friendly, shorten
from regard.viz.trace import AttentionTrace

from .fakes import dress, make_trace, recipes

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
ISOLATES = dict.fromkeys((0x2068, 0x2069))


def plain(text: str) -> str:
    return ESCAPE.sub("", text).translate(ISOLATES)


def labels(trace: AttentionTrace, side: tuple[str, ...]) -> list[str]:
    return [for_terminal(label) for label in friendly(side, trace.special)]


@settings(max_examples=60, deadline=None)
@given(recipes, st.integers(20, 140), st.booleans())
def test_every_line_fits_and_only_colours_escape(recipe, width, color):
    trace = make_trace(**recipe)
    drawn = heatmap(trace, width=width, color=color)
    assert ("\x1b" in drawn) == color
    assert "\x1b" not in plain(drawn)
    for line in drawn.split("\n"):
        assert cells(plain(line)) <= width


@settings(max_examples=60, deadline=None)
@given(recipes, st.integers(40, 140))
def test_all_target_tokens_stand_at_their_rows(recipe, width):
    trace = make_trace(**recipe)
    lines = [plain(line) for line in heatmap(trace, width=width, color=False).split("\n")]
    rows = [line.lstrip() for line in lines]
    wanted = [shorten(label, width // 4) for label in labels(trace, trace.target)]
    for label in dict.fromkeys(wanted):
        assert any(row.startswith(label) for row in rows)


@settings(max_examples=60, deadline=None)
@given(recipes, st.integers(40, 140))
def test_all_source_tokens_can_be_read(recipe, width):
    trace = make_trace(**recipe)
    lines = [plain(line) for line in heatmap(trace, width=width, color=False).split("\n")]
    level = "\n".join(lines)
    for label in labels(trace, trace.source):
        assert shorten(label, width // 4) in level or shorten(label, 14) in downward(lines)


def downward(lines: list[str]) -> str:
    """Read the lines from top to bottom, column by column; marks stay on their letters, wide letters count twice."""
    columns: dict[int, str] = {}
    for line in lines:
        at = 0
        for char in line:
            if cells(char) == 0:
                columns[at - 1] = columns.get(at - 1, "") + char
                # a mark on a wide letter belongs to the letter's first cell
                columns[at - 2] = columns.get(at - 2, "") + char
                continue
            columns[at] = columns.get(at, "") + char
            at += cells(char)
    return "\n".join(columns.values())


def test_words_stand_as_stairs_above_their_columns():
    assert heatmap(dress(), color=False).split("\n") == [
        "               dress",
        "       the red │   </s>",
        "   la ████             the 90%",
        " robe         ▓▓▓▓     dress 80%",
        "rouge     ▓▓▓▓         red 70%",
        " </s>             ████ </s> 100%",
        "      0  ░▒▓█ 1.0 · score -0.70",
    ]


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 30), st.integers(1, 12), st.floats(0, 9), st.booleans())
def test_shades_read_back_are_monotone_in_the_weights(columns, rows, sharpness, color):
    trace = make_trace(["x"] * columns, ["y"] * rows, sharpness=sharpness)
    lines = heatmap(trace, width=200, color=color).split("\n")[-rows - 1 : -1]
    width = 4 if columns * 4 + 9 <= 200 else (200 - 9) // columns
    drawn = np.array([read_cells(line, color)[: columns * width : width] for line in lines])
    weights = trace.look()
    order = np.argsort(weights, axis=None)
    assert (np.diff(drawn.flatten()[order]) >= 0).all()
    steps = len(colour_scale.RAMP if color else colour_scale.SHADES) - 1
    assert np.abs(drawn / steps - weights / colour_scale.top(weights)).max() <= 0.5 / steps + 1e-5


def read_cells(line: str, color: bool) -> list[int]:
    """Return the level of each cell after the one-letter row label and the space after it."""
    if not color:
        return [colour_scale.SHADES.index(char) for char in line[2:].ljust(200) if char in colour_scale.SHADES]
    runs = re.findall(r"\x1b\[48;5;(\d+)m( +)", line)
    return [colour_scale.RAMP.index(int(number)) for number, run in runs for _ in run]


def test_a_long_sentence_is_set_in_blocks_and_far_rows_are_folded():
    words = [f"word{i}" for i in range(60)]
    trace = AttentionTrace(tuple(words), tuple(words), np.eye(60, dtype=np.float32)[None, None], (), 0.0)
    lines = heatmap(trace, width=80, color=False).split("\n")
    titles = [line for line in lines if line.startswith("source")]
    assert titles == ["source 1–30 of 60", "source 31–60 of 60"]
    assert [line.strip() for line in lines if "⋮" in line] == ["⋮ 30 rows attend elsewhere"] * 2
    for word in words:
        (row,) = [line for line in lines if line.endswith(f" {word} 100%")]
        assert row.lstrip().startswith(f"{word} ")
        assert row.count("█") == 2


def test_wide_characters_keep_the_columns_in_line():
    weights = np.eye(3, dtype=np.float32)[None, None]
    trace = AttentionTrace(("a", "b", "c"), ("赤い", "e\u0301", "👍🏽"), weights, (), 0.0)
    rows = heatmap(trace, color=False).split("\n")[1:4]
    assert [cells(row.split("█")[0]) for row in rows] == [5, 9, 13]


def test_a_chosen_head_is_shown_and_named():
    weights = np.zeros((2, 3, 1, 2), dtype=np.float32)
    weights[..., 0], weights[1, 2] = 1.0, [[0.0, 1.0]]
    trace = AttentionTrace(("a", "b"), ("x",), weights, (), -2.0)
    assert trace.render(layer=1, head=2).endswith("x     ████ b 100%\n  0  ░▒▓█ 1.0 · score -2.00 · layer 1 · head 2")
    assert trace.render(layer=1).endswith("score -2.00 · layer 1 · mean of 3 heads")
    assert trace.render().endswith("score -2.00 · mean of 2 layers × 3 heads")


def test_not_a_number_is_drawn_as_nothing():
    weights = np.array([[[[np.nan, 0.5, 0.5]]]], dtype=np.float32)
    assert AttentionTrace(("a", "b", "c"), ("x",), weights, (), 0.0).render().split("\n")[1] == "x     ████████ b 50%"


def test_without_attention_there_is_nothing_to_show():
    trace = AttentionTrace(("a",), ("x", "</s>"), np.zeros((0, 0, 2, 1), dtype=np.float32), (), 0.0)
    assert str(trace) == "x </s> (no attention)"
    with pytest.raises(DisplayError, match=r"^This model has no attention, so there is nothing to show\.$"):
        trace.render()


def test_an_empty_trace_says_so():
    trace = AttentionTrace(("a",), (), np.zeros((1, 1, 0, 1), dtype=np.float32), (), 0.0)
    assert str(trace) == "(nothing to show: 1 source tokens, 0 target tokens)"
