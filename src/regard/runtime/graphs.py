"""The folder of an exported model, and its ONNX graphs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard.errors import ModelError, first_line
from regard.folder_files import LARGE, member, parse_json, read_member, shortened
from regard.runtime.export_entries import damaged
from regard.runtime.external_data import external_files

MANIFEST = "export.json"
FORMAT = 1
"""The format version of export.json, raised for incompatible changes."""
BESIDE = ".data"
"""What follows the name of a graph in that of the file with its weights, if they are too large for one file."""
Arrays = dict[str, NDArray[Any]]


def read_export(folder: str | Path) -> dict[str, Any]:
    """Read export.json."""
    path = Path(folder) / MANIFEST
    try:
        read = parse_json(read_member(Path(folder), MANIFEST, LARGE))
    except FileNotFoundError:
        raise ModelError(
            f"{folder} is not an exported model: it has no {MANIFEST}. Make one with regard export MODEL {folder}."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except ValueError:
        raise damaged(path) from None
    if not isinstance(read, dict) or not isinstance(read.get("format"), int):
        raise damaged(path)
    if read["format"] != FORMAT:
        raise ModelError(
            f"{path} has format {shortened(read['format'])}, and this release reads format {FORMAT}: "
            "export the model again, or install the release of regard-runtime that it was exported with."
        )
    return read


def unreadable(path: Path, error: OSError) -> ModelError:
    """Return the error for a file of an export that is missing, or cannot be read."""
    if isinstance(error, FileNotFoundError):
        return ModelError(f"{path} is missing. Copy the folder again, or export the model anew.")
    return ModelError(f"{path} cannot be read: {error.strerror}.")


class Graph:
    """One graph: named arrays in, named arrays out."""

    def __init__(self, path: Path, threads: int = 1) -> None:
        """Load a graph; `threads` are those of a matrix product, 0 for as many as there are cores."""
        try:
            import onnxruntime
        except ImportError:
            raise ModelError("Exported models need onnxruntime: pip install onnxruntime.") from None
        self._path = path
        _check_files(path)
        options = onnxruntime.SessionOptions()
        options.add_session_config_entry("session.load_model_format", "ONNX")
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime has an exception of its own for each kind of damage
            raise self.unusable(first_line(error)) from None
        self.inputs = [given.name for given in self._session.get_inputs()]
        self.axes: dict[str, list[Any]] = {given.name: given.shape for given in self._session.get_inputs()}
        """The axes of each input: lengths, or names of axes of any length."""
        self.outputs = [found.name for found in self._session.get_outputs()]

    def run(self, given: Mapping[str, NDArray[Any]], outputs: Sequence[str] | None = None) -> Arrays:
        """Run the graph for some outputs, by default all; arrays that are not inputs of it are ignored."""
        asked = self.outputs if outputs is None else outputs
        if missing := [name for name in self.inputs if name not in given]:
            raise self.unusable(f"it wants {shortened(missing[0])}, which there is not")
        try:
            found = self._session.run(asked, {name: given[name] for name in self.inputs})
        except Exception as error:  # as above
            raise self.unusable(first_line(error)) from None
        return dict(zip(asked, found, strict=True))

    def require(self, *outputs: str) -> None:
        """Raise a ModelError unless the graph has these outputs."""
        if missing := [name for name in outputs if name not in self.outputs]:
            raise self.unusable(f"it has no output {shortened(missing[0])}")

    def unusable(self, why: str) -> ModelError:
        """Return the error for a graph that is not one that an export wrote."""
        return ModelError(f"{self._path} cannot be used ({why}). Copy the folder again, or export the model anew.")


def _check_files(path: Path) -> None:
    """Raise a ModelError unless the graph is a file of the folder, and so is that with a large model's weights."""
    try:
        real = member(path.parent, path.name)
        beside = f"{path.name}{BESIDE}"
        named = external_files(real)
        if others := named - {beside}:
            raise damaged(path, f"it has weights in {shortened(min(others))}, not in {beside}")
        if named and real.parent != member(path.parent, beside).parent:
            raise damaged(path, "its weights are not in the same folder")
    except OSError as error:
        raise unreadable(Path(error.filename or path), error) from None
    except ValueError as error:
        raise damaged(path, str(error)) from None


def shares(logits: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the softmax of logits."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    found: NDArray[np.float32] = raised / raised.sum(axis=-1, keepdims=True)
    return found
