"""An exported encoder and decoder, and the search over them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.folder_files import shortened
from regard.runtime.beam_search import Scored, search
from regard.runtime.export_entries import Entries
from regard.runtime.graphs import MANIFEST, Arrays, Graph
from regard.runtime.hypotheses import Hypothesis
from regard.runtime.search_options import SearchOptions, read_options
from regard.runtime.token_limits import Ints, TokenLimits, Vocabulary

STATE, NEXT = "state.", "next."
"""The prefixes of the names of state arrays, before and after a step."""
TOKEN, LOG_PROBS, WEIGHTS = "token", "log_probs", "weights"
BATCH = "batch"
"""The name of the axis of a graph that has the hypotheses."""


class Writer:
    """A sequence-to-sequence model: encoder.onnx, and step.onnx for one decoder step."""

    def __init__(self, export: Mapping[str, Any], folder: Path, threads: int = 1) -> None:
        entries = Entries(export, folder / MANIFEST)
        self.vocabulary = Vocabulary.of(entries)
        self.options = read_options(entries.part("search"))
        """The search settings of the model."""
        self._encoder = Graph(folder / "encoder.onnx", threads)
        self._step = Graph(folder / "step.onnx", threads)
        self._batch = {name: axes.index(BATCH) for name, axes in self._step.axes.items() if BATCH in axes}
        """The batch axis of each array of the state that has one."""
        self._changed = {STATE + name.removeprefix(NEXT) for name in self._step.outputs if name.startswith(NEXT)}
        """The arrays that a step changes."""
        self._encoder.require(*(name for name in self._step.inputs if name != TOKEN))
        self._step.require(LOG_PROBS)
        self._unseen = [name for name in self._step.outputs if name != WEIGHTS]

    def write(
        self,
        source: Arrays,
        options: SearchOptions,
        prefixes: Sequence[Sequence[int]],
        *,
        n_best: int = 1,
        look: bool = True,
        banned: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the best outputs for a batch of sources, each of which is forced to start with its prefix.

        `source` has the inputs of the encoder and, in any case, a `mask` of its real positions.
        """
        mask = source["mask"]
        banned = self.vocabulary.banned if banned is None else banned
        limits = TokenLimits.of(self.vocabulary, options, mask.sum(axis=1).tolist(), prefixes, banned)
        return search(self, self._encoder.run(source), mask, limits, options, n_best, look)

    def step(self, tokens: Ints, state: Arrays, look: bool) -> tuple[Scored, Arrays]:
        """Take a step; arrays that it does not change are handed on."""
        found = self._step.run({TOKEN: tokens, **state}, None if look else self._unseen)
        scored = Scored(found.pop(LOG_PROBS), found.pop(WEIGHTS, None))
        after = {**state, **{STATE + name.removeprefix(NEXT): part for name, part in found.items()}}
        self._check(len(tokens), scored, after)
        return scored, after

    def reorder(self, state: Arrays, rows: Ints, within: bool) -> Arrays:
        """Select rows; what no step changes is the same for all hypotheses of a sentence, so it can stay within one."""
        moved = {name for name in state if name in self._batch and (name in self._changed or not within)}
        return {name: part.take(rows, self._batch[name]) if name in moved else part for name, part in state.items()}

    def _check(self, rows: int, scored: Scored, state: Arrays) -> None:
        """Raise a ModelError for arrays of other shapes than the search takes: the graphs may come from anybody."""
        log_probs, weights = scored
        if log_probs.shape != (rows, self.vocabulary.size) or log_probs.dtype != np.float32:
            raise self._step.unusable(f"{LOG_PROBS} has the shape {log_probs.shape}")
        if weights is not None and (weights.ndim != 4 or weights.shape[0] != rows or weights.dtype != np.float32):
            raise self._step.unusable(f"{WEIGHTS} has the shape {weights.shape}")
        for name, axis in self._batch.items():
            if name in state and (axis >= state[name].ndim or state[name].shape[axis] != rows):
                raise self._step.unusable(f"{shortened(name)} has the shape {state[name].shape}")
