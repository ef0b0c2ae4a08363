"""Group texts of like length into padded batches."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from regard.runtime.token_limits import Ints

FULL = 100
"""Texts of up to this many tokens count as one; longer ones count as several."""


def batches(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    """Yield the rows of each batch, the longest first; a batch of long texts has fewer, since memory grows faster."""
    rows = sorted(range(len(lengths)), key=lambda row: -lengths[row])
    while rows:
        room = max(1, min(batch_size, batch_size * FULL**2 // max(1, lengths[rows[0]]) ** 2))
        yield rows[:room]
        rows = rows[room:]


def padded(texts: Sequence[Sequence[int]], padding: int) -> tuple[Ints, NDArray[np.bool_]]:
    """Return the tokens of texts as one array, and a mask of those that are no padding."""
    tokens = np.full((len(texts), max(map(len, texts))), padding, np.int64)
    mask = np.zeros(tokens.shape, np.bool_)
    for row, text in enumerate(texts):
        tokens[row, : len(text)] = text
        mask[row, : len(text)] = True
    return tokens, mask
