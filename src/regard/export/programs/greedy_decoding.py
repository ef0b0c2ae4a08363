"""Greedy writing: the most probable token at every step, until the end mark."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.export.programs.graphs import HERE, Graph


class Writer:
    """A model that writes: encoder.onnx reads, and step.onnx takes one step."""

    def __init__(self, export: Mapping[str, Any], folder: Path = HERE) -> None:
        self._encoder, self._step = Graph("encoder.onnx", folder), Graph("step.onnx", folder)
        self._marks, self._search = export["marks"], export["search"]

    def write(
        self, source: Mapping[str, NDArray[Any]], length: int, prefix: Sequence[int] = ()
    ) -> tuple[list[int], NDArray[np.float32]]:
        """Return the tokens written of one source of this length, and where the model looked for each of them.

        Weights are steps × layers × heads × positions of the source. A prefix is what the tokens must begin with.
        """
        state = self._encoder.run(source)
        token, tokens, weights = self._marks["start"], list[int](), list[NDArray[np.float32]]()
        for place in range(self._most(length, len(prefix))):
            found = self._step.run({"token": np.array([token]), **state})
            # What a step changes is called next.… where it comes out, and state.… where it goes in again.
            state |= {f"state.{name[5:]}": part for name, part in found.items() if name.startswith("next.")}
            token = prefix[place] if place < len(prefix) else self._best(found["log_probs"][0], place)
            if token == self._marks["end"]:
                break
            tokens.append(token)
            weights += [found["weights"][0]] if "weights" in found else []
        return tokens, np.stack(weights) if weights else np.zeros((len(tokens), 0, 1, 0), np.float32)

    def _best(self, log_probs: NDArray[np.float32], place: int) -> int:
        """Return the most probable token of those that may stand at a place."""
        banned = [*self._search["banned"], *([self._marks["end"]] if place < self._search["min_length"] else [])]
        log_probs[banned] = -np.inf
        return int(log_probs.argmax())

    def _most(self, length: int, begun: int) -> int:
        """Return how many tokens are written at most, the end mark counted."""
        rule = self._search
        usual = rule["longest"] or math.ceil(rule["max_ratio"] * length) + rule["spare"]
        most = rule["max_length"] or max(usual, begun + rule["spare"], rule["min_length"] + 1)
        return int(min(most, rule["most"] or most))
