"""Export a torch module as an ONNX graph with named inputs and outputs."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir
import torch
from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass
from torch import nn

from regard.errors import ModelError
from regard.export.decoder_state import SIZES, Axes
from regard.export.int8_weights import store_in_int8
from regard.export.onnx_rnn import translations
from regard.runtime.graphs import BESIDE
from regard.shapes import Tensor

OPSET = 18
LARGEST = 2_000_000_000
"""Bytes of weights that fit in one ONNX file (2 GB in protobuf)."""


@dataclass(frozen=True)
class Port:
    """An input or an output of a graph."""

    name: str
    axes: Axes
    dtype: torch.dtype
    about: str

    def example(self, sizes: Mapping[str, int] = SIZES) -> Tensor:
        """Return an example tensor of the right shape and type."""
        return torch.ones([sizes[axis] if isinstance(axis, str) else axis for axis in self.axes], dtype=self.dtype)

    def described(self) -> dict[str, Any]:
        """Return its entry in `export.json`."""
        kind = str(self.dtype).removeprefix("torch.")
        return {"name": self.name, "shape": list(self.axes), "type": kind, "about": self.about}


class OnnxGraph:
    """An ONNX graph."""

    def __init__(self, module: nn.Module, inputs: Sequence[Port], outputs: Sequence[Port]) -> None:
        """Trace a module with inputs and outputs in the given order."""
        self.inputs, self.outputs = list(inputs), list(outputs)
        self._model: onnx_ir.Model = _record(module, self.inputs, [port.name for port in outputs]).model
        ClearMetadataAndDocStringPass()(self._model)  # drop the source lines that torch stores for each node
        for values, ports in ((self._graph.inputs, self.inputs), (self._graph.outputs, self.outputs)):
            for value, port in zip(values, ports, strict=True):
                value.shape = onnx_ir.Shape(port.axes)

    @property
    def _graph(self) -> onnx_ir.Graph:
        return self._model.graph

    def needed(self, outputs: set[str]) -> set[str]:
        """Return the names of the inputs that these outputs depend on."""
        todo = [value for value in self._graph.outputs if value.name in outputs]
        found = set[onnx_ir.Value]()
        while todo:
            value = todo.pop()
            node = value.producer()
            if value not in found and node is not None:
                todo += [given for given in node.inputs if given is not None]
            found.add(value)
        return {value.name for value in found if value.name is not None} & {port.name for port in self.inputs}

    def keep(self, inputs: set[str], outputs: set[str]) -> None:
        """Remove all inputs and outputs but these, and the nodes that become unused."""
        both = ((outputs, self.outputs, self._graph.outputs), (inputs, self.inputs, self._graph.inputs))
        for kept, ports, values in both:
            for value in [value for value in values if value.name not in kept]:
                values.remove(value)
            ports[:] = [port for port in ports if port.name in kept]
            RemoveUnusedNodesPass()(self._model)

    def store_in_int8(self) -> None:
        """Store its weights as 8-bit integers."""
        store_in_int8(self._graph)

    def save(self, path: Path) -> None:
        """Save the graph with its weights; for a large model, the weights go to a second file beside it."""
        weights = [value.const_value for value in self._graph.initializers.values()]
        large = sum(weight.nbytes for weight in weights if weight is not None) > LARGEST
        onnx_ir.save(self._model, path, external_data=f"{path.name}{BESIDE}" if large else None)

    def described(self) -> dict[str, Any]:
        """Return its entry in `export.json`."""
        return {
            "inputs": [port.described() for port in self.inputs],
            "outputs": [port.described() for port in self.outputs],
        }


def _record(module: nn.Module, inputs: Sequence[Port], names: list[str]) -> Any:
    free = torch.export.Dim.DYNAMIC
    grows = [{place: free for place, axis in enumerate(port.axes) if isinstance(axis, str)} for port in inputs]
    examples = tuple(port.example() for port in inputs)
    try:
        with torch.no_grad(), _quietly():
            program = torch.export.export(module.eval(), examples, dynamic_shapes=(tuple(grows),), strict=False)
            return torch.onnx.export(
                program,
                input_names=[port.name for port in inputs],
                output_names=names,
                opset_version=OPSET,
                dynamo=True,
                custom_translation_table=translations(),
                verbose=False,
            )
    except Exception as error:  # torch raises all kinds of errors for unsupported operations
        why = str(error).strip().partition("\n")[0]
        raise ModelError(
            f"This model cannot be exported: torch cannot convert a part of it to ONNX ({type(error).__name__}: {why})."
        ) from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence the log messages, warnings and prints of torch's exporter."""
    loud = [logging.getLogger(name) for name in ("torch", "torch.__trace", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loud]
    for logger in loud:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loud, levels, strict=True):
            logger.setLevel(level)
