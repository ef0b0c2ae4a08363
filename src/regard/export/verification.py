"""Verify exported graphs against their models on the same random inputs, of other sizes than in tracing."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import ModelError
from regard.export.decoder_state import BATCH, QUESTION, SOURCE
from regard.export.graph_inputs import GraphInputs
from regard.export.single_graph import Whole
from regard.export.step_graphs import LEAST, LOG_PROBS, NEXT, STATE, TOKEN, WEIGHTS
from regard.models.seq2seq import Seq2Seq
from regard.runtime.graphs import Arrays, Graph
from regard.shapes import Tensor

MOST = 1e-4
"""The largest difference of log-probabilities, logits or weights attributed to rounding; relative to the largest value
if that is above 1."""
FINITE = sys.float_info.max
"""What is allowed for weights stored as 8-bit integers, whose rounding may change what is attended to: any number."""
TRIALS = (
    {BATCH: 1, SOURCE: 1, QUESTION: 1},
    {BATCH: 3, SOURCE: LEAST, QUESTION: 7},
    {BATCH: 4, SOURCE: 6, QUESTION: 3},
)
STEPS = 5


@torch.no_grad()
def check_whole(module: Whole, source: GraphInputs, folder: Path, allowed: float = MOST) -> float:
    """Return the largest difference in any output of a model; raise a ModelError if it is above `allowed`."""
    graph, most = Graph(folder / "model.onnx"), 0.0
    for sizes in TRIALS:
        given = source.examples(sizes)
        found = graph.run(_named(source, given))
        said = module.say(*given)
        most = max(most, *(_difference(found[name], said[name]) for name in found))
    return _checked(most, allowed)


@torch.no_grad()
def check_writer(model: Seq2Seq, source: GraphInputs, folder: Path, start: int, allowed: float = MOST) -> float:
    """Return the largest difference over some steps of greedy decoding; as above."""
    encoder, step = Graph(folder / "encoder.onnx"), Graph(folder / "step.onnx")
    most = 0.0
    for sizes in TRIALS:
        given = source.examples(sizes)
        state = model.decoder.start(model.encode(*given))
        known = encoder.run(_named(source, given))
        token = torch.full((sizes[BATCH],), start)
        for _ in range(STEPS):
            taken = model.decoder.step(token, state)
            found = step.run({TOKEN: token.numpy(), **known})
            most = max(most, _difference(found[LOG_PROBS], taken.logits.log_softmax(dim=-1)))
            if WEIGHTS in found and taken.weights is not None:
                most = max(most, _difference(found[WEIGHTS], taken.weights))
            known |= {name.replace(NEXT, STATE, 1): part for name, part in found.items() if name.startswith(NEXT)}
            state, token = taken.state, taken.logits.argmax(dim=-1)
    return _checked(most, allowed)


def _named(source: GraphInputs, given: Sequence[Tensor]) -> Arrays:
    return {port.name: part.numpy() for port, part in zip(source.ports, given, strict=True)}


def _difference(found: NDArray[Any], right: Tensor) -> float:
    if found.shape != tuple(right.shape):
        raise ModelError(f"The export is wrong: its output has shape {found.shape}, the model's {tuple(right.shape)}.")
    given: NDArray[Any] = right.numpy()
    finite = np.isfinite(given)
    if not np.array_equal(np.where(finite, 0.0, given), np.where(np.isfinite(found), 0.0, found), equal_nan=True):
        return np.inf  # values that are not finite must be equal
    largest = max(1.0, float(np.abs(given[finite]).max(initial=0.0)))
    return float(np.abs(found[finite] - given[finite]).max(initial=0.0)) / largest


def _checked(most: float, allowed: float) -> float:
    if not most <= allowed:
        raise ModelError(
            f"The export is wrong: onnxruntime and torch differ by {most:.1e}, and rounding explains at most "
            f"{allowed:.0e}. Nothing was written."
        )
    return most
