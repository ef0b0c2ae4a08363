"""Where an ONNX file keeps its weights: found before onnxruntime, which would open any file that it names.

ONNX is a protocol buffer: a message has fields, each a key (its number and its wire type) and a value. Only messages
that lead to tensors are descended into; their numbers are those of `onnx.proto`.
"""

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

NO_ONNX: Final = "it is not an ONNX file"
_MODEL, _GRAPH, _NODE, _ATTRIBUTE, _SPARSE, _TRAINING, _FUNCTION, _TENSOR, _ENTRY = range(9)
_WITHIN: Final = {
    _MODEL: {7: _GRAPH, 20: _TRAINING, 25: _FUNCTION},
    _GRAPH: {1: _NODE, 5: _TENSOR, 15: _SPARSE},
    _NODE: {5: _ATTRIBUTE},
    _ATTRIBUTE: {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE},
    _SPARSE: {1: _TENSOR, 2: _TENSOR},
    _TRAINING: {1: _GRAPH, 2: _GRAPH},
    _FUNCTION: {7: _NODE, 11: _ATTRIBUTE},
    _TENSOR: {13: _ENTRY},
    _ENTRY: {},
}
"""The fields of each kind of message that lead to the files of tensors."""
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5
_LENGTHS: Final = {_EIGHT: 8, _FOUR: 4}


def external_files(path: Path) -> set[str]:
    """Return the names of the files that an ONNX file says its weights are in; raise a ValueError if it is no ONNX."""
    with path.open("rb") as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            raise ValueError(NO_ONNX) from None
        with content:
            return set(_names(content))


def _names(content: mmap.mmap) -> Iterator[str]:
    waiting = [(_MODEL, 0, len(content))]
    while waiting:
        kind, start, end = waiting.pop()
        entry = {1: b"", 2: b""}
        for field, first, last in _fields(content, start, end):
            if kind == _ENTRY and field in entry:
                entry[field] = content[first:last]
            elif field in _WITHIN[kind]:
                waiting.append((_WITHIN[kind][field], first, last))
        if kind == _ENTRY and entry[1] == b"location":
            yield entry[2].decode("utf-8", "replace")


def _fields(content: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each field of a message that is a message or a text itself, and where its value is."""
    while at < end:
        key, at = _varint(content, at, end)
        field, wire = key >> 3, key & 7
        if wire == _VARINT:
            _, at = _varint(content, at, end)
            continue
        length, at = _varint(content, at, end) if wire == _BYTES else (_LENGTHS.get(wire, end), at)
        if at + length > end:
            raise ValueError(NO_ONNX)
        if wire == _BYTES:
            yield field, at, at + length
        at += length


def _varint(content: mmap.mmap, at: int, end: int) -> tuple[int, int]:
    """Return the number that begins at a place, and the place after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= end:
            break
        byte, at = content[at], at + 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
    raise ValueError(NO_ONNX)
