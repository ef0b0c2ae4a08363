"""Run the ONNX graphs of an exported model with onnxruntime."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
Arrays = dict[str, NDArray[Any]]


def read_export(folder: Path = HERE) -> dict[str, Any]:
    """Read export.json."""
    read: dict[str, Any] = json.loads((folder / "export.json").read_text(encoding="utf-8"))
    return read


class Graph:
    """One graph: named arrays in, named arrays out."""

    def __init__(self, file: str, folder: Path = HERE) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(str(folder / file))
        self._inputs = [given.name for given in self._session.get_inputs()]
        self._outputs = [found.name for found in self._session.get_outputs()]

    def run(self, given: Mapping[str, NDArray[Any]]) -> Arrays:
        """Run the graph; arrays that are not inputs of it are ignored."""
        found = self._session.run(None, {name: given[name] for name in self._inputs})
        return dict(zip(self._outputs, found, strict=True))


def shares(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of logits."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: NDArray[np.float32] = raised / raised.sum(axis=-1, keepdims=True)
    return found
