"""Traces from arrays of any model."""

import numpy as np
import pytest
import torch

from regard.errors import DisplayError
from regard.viz.trace import AttentionTrace

SOURCE, TARGET = ["a", "b", "c"], ["x", "</s>"]


@pytest.mark.parametrize("shape", [(2, 3), (5, 2, 3), (7, 5, 2, 3)])
@pytest.mark.parametrize("kind", ["array", "list", "tensor", "half", "gradient"])
def test_arrays_of_all_shapes_and_kinds(shape, kind):
    weights = np.random.default_rng(1).random(shape, np.float32)
    given = {
        "array": lambda: weights,
        "list": lambda: weights.tolist(),
        "tensor": lambda: torch.from_numpy(weights),
        "half": lambda: torch.from_numpy(weights).bfloat16(),
        "gradient": lambda: torch.from_numpy(weights).requires_grad_(),
    }[kind]()
    trace = AttentionTrace.from_arrays(given, SOURCE, TARGET, log_probs=[-1.0, -2.0])
    assert trace.weights.shape == (1,) * (4 - len(shape)) + shape
    np.testing.assert_allclose(trace.weights.reshape(shape), weights, atol=4e-3 if kind == "half" else 0)
    assert (trace.source, trace.target, trace.log_probs) == (("a", "b", "c"), ("x", "</s>"), (-1.0, -2.0))
    assert trace.score is None
    assert AttentionTrace.from_json(trace.to_json()).target == trace.target


UNIFORM = np.full((2, 3), 1 / 3)


@pytest.mark.parametrize(
    ("weights", "source", "message"),
    [
        (
            UNIFORM.T,
            SOURCE,
            "The weights are for 3 target and 2 source tokens, but there are 2 and 3. They fit if they are transposed.",
        ),
        (UNIFORM, [*SOURCE, "d"], "The weights are for 2 target and 3 source tokens, but there are 2 and 4."),
        (
            np.zeros((1, 1, 1, 2, 3)),
            SOURCE,
            "Attention weights must have the shape target × source, heads × target × source, or layers × heads × "
            "target × source; got 5 dimensions, (1, 1, 1, 2, 3).",
        ),
        (
            UNIFORM - 0.5,
            SOURCE,
            "Attention weights cannot be negative, but the smallest is -0.1667: give the weights after the softmax, "
            "not the scores.",
        ),
        (UNIFORM * np.nan, SOURCE, "Attention weights must be finite, but some are NaN or infinite."),
        (UNIFORM, "abc", "source must be a list of tokens, each a string, got 'abc'."),
        ([["a", "b", "c"]] * 2, SOURCE, "Attention weights must be an array of numbers: could not convert string"),
        ([[1.0], [1.0, 0.0]], SOURCE, "Attention weights must be an array of numbers: setting an array element"),
    ],
)
def test_what_is_no_attention_is_refused(weights, source, message):
    with pytest.raises(DisplayError) as caught:
        AttentionTrace.from_arrays(weights, source, TARGET)
    assert str(caught.value).startswith(message)
