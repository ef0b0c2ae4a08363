"""Recurrent networks as ONNX's own operators."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import opset18

import regard.layers.padded_rnn  # noqa: F401 (importing it makes the operation known to torch)

op: Any = opset18
"""What is called here writes nodes of a graph; what it takes are values of one, which its types do not say."""
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Torch's gates in the order of ONNX: of an LSTM input, output, forget, cell; of a GRU update, reset, new."""


def recurrent(sequence: Any, lengths: Any, first: Any, weights: Sequence[Any], kind: str) -> tuple[Any, Any]:
    """Write `regard::recurrent` as an LSTM or a GRU of ONNX, which takes steps first and rows second."""
    by_direction = [weights[start : start + 4] for start in range(0, len(weights), 4)]
    inputs, hidden = (_stacked([direction[at] for direction in by_direction], kind) for at in (0, 1))
    biases = op.Concat(*(_stacked([direction[at] for direction in by_direction], kind) for at in (2, 3)), axis=1)
    width = int(weights[1].shape[1])
    settings = {"direction": "bidirectional" if len(by_direction) == 2 else "forward", "hidden_size": width}
    if kind == "gru":
        settings["linear_before_reset"] = 1
    begun = [op.Squeeze(part, _ints(0)) for part in _split(first, 2 if kind == "lstm" else 1)]
    given = (op.Transpose(sequence, perm=[1, 0, 2]), inputs, hidden, biases, op.Cast(lengths, to=6), *begun)
    outputs, *finals = (op.LSTM if kind == "lstm" else op.GRU)(*given, **settings)
    by_row = op.Transpose(outputs, perm=[2, 0, 1, 3])  # B S R D
    states = op.Reshape(by_row, _ints(0, 0, -1))
    return states, op.Concat(*(op.Unsqueeze(final, _ints(0)) for final in finals), axis=0)


def _stacked(weights: Sequence[Any], kind: str) -> Any:
    """Put the weights of all directions one behind the other, their gates in ONNX's order."""
    made = []
    for weight in weights:
        gates = _split(weight, len(ORDERS[kind]))
        ordered = op.Concat(*(gates[gate] for gate in ORDERS[kind]), axis=0)
        made.append(op.Unsqueeze(ordered, _ints(0)))
    return made[0] if len(made) == 1 else op.Concat(*made, axis=0)


def _split(whole: Any, parts: int) -> Sequence[Any]:
    return [whole] if parts == 1 else op.Split(whole, axis=0, num_outputs=parts)


def _ints(*numbers: int) -> Any:
    return op.Constant(value_ints=numbers)


def translations() -> dict[Any, Callable[..., Any]]:
    """Return what torch's exporter is to make of our own operations."""
    return {torch.ops.regard.recurrent.default: recurrent}
