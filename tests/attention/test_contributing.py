"""The mechanism that CONTRIBUTING.md adds is one: its code runs, and the laws of attention hold for it."""

import re
from pathlib import Path

import pytest
import torch

from attention import test_laws as laws
from regard.attention import scores
from regard.attention.base import Sizes
from regard.config import AttentionConfig

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LAWS = (
    laws.test_context_is_the_weighted_sum_of_the_values,
    laws.test_without_a_look_the_context_and_its_gradient_are_the_same,
    laws.test_poisoned_padding_changes_no_bit,
    laws.test_a_fully_masked_row_is_zero_forward_and_backward,
    laws.test_every_parameter_gets_a_gradient,
    laws.test_stepwise_equals_all_at_once,
)


@pytest.fixture
def gaussian():
    """Register what the page registers, for one test."""
    [code] = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
    before = set(scores)
    try:
        exec(compile(code, str(PAGE), "exec"), {"__name__": "contributed"})
        [name] = set(scores) - before
        yield name
    finally:
        for name in set(scores) - before:
            del scores._parts[name]


def cases(name):
    for sight, reach in (("another", "global"), ("another", "local-p"), ("past", "causal"), ("around", "window")):
        for focus in ("softmax", "sparsemax"):
            for heads in ({"heads": 1}, {"heads": 4, "groups": 2}):
                config = AttentionConfig(score=name, reach=reach, focus=focus, head_width=6, window=2, **heads)
                yield laws.Case(sight, config, "none")


def inputs(case):
    return laws.inputs.__wrapped__(case)


def test_the_laws_hold_for_the_mechanism_of_the_page(gaussian):
    for case in cases(gaussian):
        for law in LAWS:
            law(case, inputs(case))
        for training in (False, True):
            laws.test_weights_are_a_distribution_over_what_is_real(case, inputs(case), training)


def test_it_computes_its_equation(gaussian):
    torch.manual_seed(1)
    score = scores[gaussian](Sizes(query=3, key=3, heads=2)).double()
    query, keys = torch.randn(2, 2, 5, 3).double(), torch.randn(2, 2, 7, 3).double()
    distances = torch.cdist(query, keys).square()
    sigma = score.log_sigma.exp()[:, None, None]
    torch.testing.assert_close(score(query, score.keys(keys)), -distances / (2 * sigma.square()))


def test_it_is_gone_afterwards():
    assert "gaussian" not in scores
