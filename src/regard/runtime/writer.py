"""An exported encoder and decoder, and the search over them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from regard.runtime.beam_search import Scored, search
from regard.runtime.graphs import Arrays, Graph
from regard.runtime.hypotheses import Hypothesis
from regard.runtime.search_options import SearchOptions
from regard.runtime.token_limits import Ints, TokenLimits

STATE, NEXT = "state.", "next."
"""The prefixes of the names of state arrays, before and after a step."""
LOG_PROBS, WEIGHTS = "log_probs", "weights"


class Writer:
    """A sequence-to-sequence model: encoder.onnx, and step.onnx for one decoder step."""

    def __init__(self, export: Mapping[str, Any], folder: Path, threads: int = 1) -> None:
        self._export = {part: export[part] for part in ("marks", "search")}
        if missing := {"banned", "spare", "longest", "most", "most_read"} - export["search"].keys():
            raise KeyError(*missing)
        self._encoder = Graph(folder / "encoder.onnx", threads)
        self._step = Graph(folder / "step.onnx", threads)
        shapes = {port["name"]: port["shape"] for port in export["graphs"]["step.onnx"]["inputs"]}
        self._batch = {name: shape.index("batch") for name, shape in shapes.items() if "batch" in shape}
        """The batch axis of each array of the state that has one."""
        self._changed = {STATE + name.removeprefix(NEXT) for name in self._step.outputs if name.startswith(NEXT)}
        """The arrays that a step changes."""
        self._unseen = [name for name in self._step.outputs if name != WEIGHTS]

    @property
    def banned(self) -> list[int]:
        """Tokens that are never generated."""
        return list(self._export["search"]["banned"])

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
        banned = self.banned if banned is None else banned
        limits = TokenLimits.of(self._export, options, mask.sum(axis=1).tolist(), prefixes, banned)
        return search(self, self._encoder.run(source), mask, limits, options, n_best, look)

    def step(self, tokens: Ints, state: Arrays, look: bool) -> tuple[Scored, Arrays]:
        """Take a step; arrays that it does not change are handed on."""
        found = self._step.run({"token": tokens, **state}, None if look else self._unseen)
        scored = Scored(found.pop(LOG_PROBS), found.pop(WEIGHTS, None))
        return scored, {**state, **{STATE + name.removeprefix(NEXT): part for name, part in found.items()}}

    def reorder(self, state: Arrays, rows: Ints, within: bool) -> Arrays:
        """Select rows; what no step changes is the same for all hypotheses of a sentence, so it can stay within one."""
        moved = {name for name in state if name in self._batch and (name in self._changed or not within)}
        return {name: part.take(rows, self._batch[name]) if name in moved else part for name, part in state.items()}
