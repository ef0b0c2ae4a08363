"""Export recurrent networks as ONNX's LSTM and GRU operators."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from onnxscript import opset18

import regard.layers.padded_rnn  # noqa: F401 (importing it makes the operation known to torch)

op: Any = opset18
"""Its functions add nodes to a graph and take values of the graph, which its own type hints do not allow for."""
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2)}
"""Torch's gates in ONNX's order: input, output, forget, cell for an LSTM; update, reset, new for a GRU."""


def recurrent(sequence: Any, lengths: Any, first: Any, weights: Sequence[Any], kind: str) -> tuple[Any, Any]:
    """Translate `regard::recurrent` to an ONNX LSTM or GRU, whose inputs are time-major (steps, batch, width)."""
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
    """Stack the weights of all directions, with their gates in ONNX's order."""
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
    """Return the translation table of our custom operators for torch's exporter."""
    return {torch.ops.regard.recurrent.default: recurrent}
