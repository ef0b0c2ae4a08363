"""Store the weights of a graph as 8-bit integers: a file of less than a third the size, run in float32 as before.

Each 32 weights in a row share a scale, the largest of them divided by 127. onnxruntime multiplies them out when it
loads the graph, so that results differ by the rounding of the weights alone. Rounding the inputs of products as well
(dynamic quantisation) would make a result depend on the other sentences of its batch, which share a scale.
"""

from typing import Any

import numpy as np
import onnx_ir
from numpy.typing import NDArray
from onnx_ir.convenience import replace_all_uses_with

SHARED = 32
"""Weights that share a scale."""
LEAST = 1024
"""Smaller tensors stay as they are, as do vectors: there is little to save."""
LARGEST = 127


def store_in_int8(graph: onnx_ir.Graph) -> None:
    """Replace every large weight by integers and scales, and nodes that multiply them out."""
    nodes: list[onnx_ir.Node] = []
    for name, value in list(graph.initializers.items()):
        weight = None if value.const_value is None else value.const_value.numpy()
        if weight is None or weight.dtype != np.float32 or not _is_large(weight):
            continue
        integers, scales = rounded(weight)
        parts: dict[str, NDArray[Any]] = {"int8": integers, "scales": scales, "shape": np.array(weight.shape, np.int64)}
        given = {part: _stored(graph, f"{name}.{part}", array) for part, array in parts.items()}
        whole = onnx_ir.node("Cast", [given["int8"]], {"to": onnx_ir.DataType.FLOAT})
        scaled = onnx_ir.node("Mul", [whole.outputs[0], given["scales"]])
        shaped = onnx_ir.node("Reshape", [scaled.outputs[0], given["shape"]])
        for node, part in ((whole, "whole"), (scaled, "scaled"), (shaped, "float32")):
            node.outputs[0].name = f"{name}.{part}"
        replace_all_uses_with(value, shaped.outputs[0])
        del graph.initializers[name]
        nodes += [whole, scaled, shaped]
    if nodes:
        graph.insert_before(graph[0], nodes)


def rounded(weight: NDArray[np.float32]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Return the integers, a row for each scale, and the scales."""
    rows = weight.reshape(-1, SHARED)
    scales = np.abs(rows).max(axis=1, keepdims=True) / LARGEST
    scales[scales == 0] = 1.0
    return np.rint(rows / scales).astype(np.int8), scales


def _is_large(weight: NDArray[np.float32]) -> bool:
    return weight.ndim > 1 and weight.size >= LEAST and weight.size % SHARED == 0


def _stored(graph: onnx_ir.Graph, name: str, array: NDArray[np.generic]) -> onnx_ir.Value:
    value = onnx_ir.val(name, const_value=onnx_ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value
