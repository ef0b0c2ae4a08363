"""Traces from arrays of any model."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz.trace import SPECIAL, AttentionTrace


def trace_of_arrays(
    weights: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    log_probs: Sequence[float] = (),
    special: Collection[str] = SPECIAL,
) -> AttentionTrace:
    """See `AttentionTrace.from_arrays`."""
    for name, tokens in (("source", source), ("target", target)):
        if isinstance(tokens, str) or not all(isinstance(token, str) for token in tokens):
            raise DisplayError(f"{name} must be a list of tokens, each a string, got {_shortened(tokens)}.")
    found = as_weights(weights)
    rows, columns = found.shape[2:]
    if (rows, columns) != (len(target), len(source)):
        turned = " They fit if they are transposed." if (columns, rows) == (len(target), len(source)) else ""
        raise DisplayError(
            f"The weights are for {rows} target and {columns} source tokens, but there are {len(target)} and "
            f"{len(source)}.{turned}"
        )
    return AttentionTrace(
        tuple(source), tuple(target), found, tuple(map(float, log_probs)), None, special=frozenset(special)
    )


def as_weights(weights: Any) -> NDArray[np.float32]:
    """Return layers × heads × target × source weights from an array or tensor of two to four dimensions."""
    if hasattr(weights, "detach"):  # a tensor, perhaps on a GPU, in half precision or with a gradient
        weights = weights.detach().cpu().float()
    try:
        found = np.asarray(weights, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DisplayError(f"Attention weights must be an array of numbers: {error}.") from error
    if not 2 <= found.ndim <= 4:
        raise DisplayError(
            "Attention weights must have the shape target × source, heads × target × source, or layers × heads × "
            f"target × source; got {found.ndim} dimensions, {found.shape}."
        )
    found = found.reshape((1,) * (4 - found.ndim) + found.shape)
    if not np.isfinite(found).all():
        raise DisplayError("Attention weights must be finite, but some are NaN or infinite.")
    if found.size and found.min() < 0:
        raise DisplayError(
            f"Attention weights cannot be negative, but the smallest is {found.min():.4g}: give the weights after the "
            "softmax, not the scores."
        )
    return np.ascontiguousarray(found)


def _shortened(value: Any) -> str:
    written = repr(value)
    return written if len(written) <= 60 else written[:60] + "…"
