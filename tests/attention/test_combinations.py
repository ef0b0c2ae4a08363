"""What build.py refuses, word for word."""

from dataclasses import replace

import pytest

from regard.attention import build_attention, focuses, reaches
from regard.config import AttentionConfig
from regard.errors import ConfigError


def refusal(itself=False, position="none", **changes):
    config = replace(AttentionConfig("scaled-dot"), **changes)
    with pytest.raises(ConfigError) as caught:
        build_attention(config, 24, 24, itself=itself, position=position)
    return str(caught.value)


@pytest.mark.parametrize("number", ["heads", "window", "stride", "longest", "width"])
@pytest.mark.parametrize("value", [0, -3])
def test_numbers_that_count_something(number, value):
    assert refusal(**{number: value}) == f"model.attention.{number} must be at least 1, got {value}."
    assert refusal(itself=True, **{number: value}).startswith(f"model.self_attention.{number} must be at least 1")


def test_a_head_width_below_zero():
    assert refusal(heads=4, head_width=-6) == (
        "model.attention.head_width must be at least 1, or 0 for the query width divided by the number of heads, got "
        "-6."
    )


@pytest.mark.parametrize("groups", [3, -1])
def test_groups_that_do_not_divide_the_heads(groups):
    assert refusal(heads=4, groups=groups) == (
        f"model.attention.groups is {groups}, which does not divide the 4 heads: every group must serve the same "
        "number of heads."
    )


def test_heads_that_do_not_divide_the_width():
    assert refusal(heads=5) == (
        "model.attention.heads is 5, which does not divide the width of a query, 24: change one of them, or set "
        "model.attention.head_width."
    )
    build_attention(AttentionConfig("scaled-dot", heads=5, head_width=4), 24, 24)


@pytest.mark.parametrize("temperature", [0.0, -1.0, float("nan")])
def test_a_temperature_that_is_none(temperature):
    assert (
        refusal(temperature=temperature)
        == f"model.attention.temperature must be above 0 and finite, got {temperature}."
    )


@pytest.mark.parametrize("reach", [name for name in reaches if not reaches[name].of_itself])
def test_a_reach_that_finds_a_place_in_another_sequence(reach):
    assert refusal(itself=True, reach=reach) == (
        f"model.self_attention.reach={reach} centres a window in another sequence, so self-attention cannot use it: "
        "use window, dilated, strided or chunked."
    )


@pytest.mark.parametrize("reach", [name for name in reaches if not reaches[name].of_another])
def test_a_reach_that_goes_by_distance(reach):
    assert refusal(reach=reach) == (
        f"model.attention.reach={reach} goes by the distance between two positions of one sequence, but the decoder "
        "attends to another one, the source: use global, local-m or local-p."
    )


def test_a_score_of_places_where_a_sequence_looks_at_itself():
    assert refusal(itself=True, score="location") == (
        "model.self_attention.score=location learns a weight for each source position, whatever token is there, so "
        "self-attention cannot use it: use another score."
    )


def test_a_focus_that_moves_on_where_a_sequence_looks_at_itself():
    assert [name for name in focuses if focuses[name].goes_on] == ["monotonic"]
    assert refusal(itself=True, focus="monotonic") == (
        "model.self_attention.focus=monotonic moves through a source of fixed length, so self-attention, whose "
        "sequence grows, cannot use it: use softmax, sparsemax, entmax or gumbel."
    )


@pytest.mark.parametrize("reach", ["local-m", "local-p"])
def test_a_focus_that_moves_on_with_a_reach_that_moves_too(reach):
    assert refusal(focus="monotonic", reach=reach) == (
        f"model.attention.focus=monotonic and model.attention.reach={reach} both decide where to attend: use "
        "model.attention.reach=global."
    )


def test_coverage_where_a_sequence_looks_at_itself():
    assert refusal(itself=True, coverage="see2017") == (
        "model.self_attention.coverage counts how often each source position was attended to, so self-attention, which "
        "gets new positions at every step, cannot use it: set it to none."
    )


def test_positions_that_need_an_inner_product():
    assert refusal(itself=True, position="rotary", score="additive") == (
        "model.positions=rotary changes the inner product of query and key, but model.self_attention.score=additive is "
        "not one: use one of dot, cosine, general, scaled-dot, or model.positions=alibi."
    )


@pytest.mark.parametrize("text", ["3", "a.b", "1.", ".1", "-1.0", "0.0.0"])
def test_pruned_heads_that_are_not_written_as_such(text):
    assert refusal(heads=4, pruned=(text,)) == (
        f"model.attention.pruned contains '{text}': write LAYER.HEAD, both counted from 0, such as 2.5."
    )


def test_a_pruned_head_that_there_is_not():
    assert refusal(heads=4, pruned=("0.1", "9.4")) == (
        "model.attention.pruned contains '9.4', but there are 4 heads, counted from 0."
    )


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"reach": "locla-m"}, "No attention reach named 'locla-m'. Did you mean 'local-m'?"),
        ({"focus": "sparse-max"}, "No attention focus named 'sparse-max'. Did you mean 'sparsemax'?"),
        ({"coverage": "see2016"}, "No coverage named 'see2016'. Did you mean 'see2017'?"),
        ({"score": "cosin"}, "No attention score named 'cosin'. Did you mean 'cosine'?"),
    ],
)
def test_misspelt_parts_are_told_the_nearest(config, message):
    assert refusal(**config).startswith(message)
