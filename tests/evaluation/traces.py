"""Traces written down by hand."""

import numpy as np

from regard.viz.trace import AttentionTrace


def trace_of(weights, source_words, target_words):
    looks = np.array(weights, dtype=np.float32)[None, None]
    rows, columns = looks.shape[2:]
    return AttentionTrace(
        source=tuple(f"s{number}" for number in range(columns)),
        target=tuple(f"t{number}" for number in range(rows)),
        weights=looks,
        log_probs=(0.0,) * rows,
        score=0.0,
        source_words=source_words,
        target_words=target_words,
    )
