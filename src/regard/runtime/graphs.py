"""The folder of an exported model, and its ONNX graphs."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ModelError

MANIFEST = "export.json"
FORMAT = 1
"""The format version of export.json, raised for incompatible changes."""
Arrays = dict[str, NDArray[Any]]


def read_export(folder: str | Path) -> dict[str, Any]:
    """Read export.json."""
    path = Path(folder) / MANIFEST
    try:
        read = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} is not an exported model: it has no {MANIFEST}. Make one with regard export MODEL {folder}."
        ) from None
    except OSError as error:
        raise ModelError(f"Cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise damaged(path) from None
    if not isinstance(read, dict) or not isinstance(read.get("format"), int):
        raise damaged(path)
    if read["format"] != FORMAT:
        raise ModelError(
            f"{path} has format {read['format']}, and this release reads format {FORMAT}: "
            "export the model again, or install the release of regard-runtime that it was exported with."
        )
    return read


def damaged(path: Path) -> ModelError:
    """Return the error for a file that is not what an export wrote."""
    return ModelError(f"{path} is damaged. Copy the folder again, or export the model anew.")


class Graph:
    """One graph: named arrays in, named arrays out."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        """Load a graph; `threads` are those of a matrix product, 0 for as many as there are cores."""
        try:
            import onnxruntime
        except ImportError:
            raise ModelError("Exported models need onnxruntime: pip install onnxruntime.") from None
        if not path.is_file():
            raise ModelError(f"{path} is missing. Copy the folder again, or export the model anew.")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has an exception of its own for each kind of damage
            why = str(error).strip().partition("\n")[0]
            raise ModelError(f"{path} cannot be loaded ({why}). Copy the folder again, or export anew.") from None
        self._inputs = [given.name for given in self._session.get_inputs()]
        self.outputs = [found.name for found in self._session.get_outputs()]

    def run(self, given: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None) -> Arrays:
        """Run the graph for some outputs, by default all; arrays that are not inputs of it are ignored."""
        asked = self.outputs if outputs is None else outputs
        found = self._session.run(asked, {name: given[name] for name in self._inputs})
        return dict(zip(asked, found, strict=True))


def shares(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of logits."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: NDArray[np.float32] = raised / raised.sum(axis=-1, keepdims=True)
    return found
