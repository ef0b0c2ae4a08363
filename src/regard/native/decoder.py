"""A decoder in the library: made from its modules, asked to search, read out into plain arrays."""

import ctypes
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.models.protocol import Decoder
from regard.models.recurrent_decoder import RecurrentState
from regard.models.transformer import TransformerState
from regard.native.encoder import Reading
from regard.native.library import library
from regard.native.weight_layout import DecoderPlan, UnknownError
from regard.shapes import Tensor

__all__ = ["Engine", "Found", "SearchRequest", "UnknownError"]

LONGEST = 512
"""Positions that are written down in advance; more where more are needed."""


class Options(ctypes.Structure):
    """Laid out as `Options` in beam_search.h."""

    _fields_ = [
        *(
            (name, ctypes.c_int32)
            for name in ("beam", "n_best", "bos", "eos", "min_length", "at_once", "threads", "look")
        ),
        *((name, ctypes.c_float) for name in ("length_penalty", "patience")),
    ]


class SearchRequest(NamedTuple):
    """What is to be found, for all sentences."""

    options: Options
    limits: Sequence[int]
    """Most tokens of each sentence."""
    prefixes: Sequence[Sequence[int]]
    """What each sentence must start with."""
    words: Sequence[NDArray[np.int32]] | None
    """The words that each sentence may be written with; None for all."""
    banned: Sequence[int]


class Found(NamedTuple):
    """What was found: hypotheses of one sentence after those of another, best first."""

    broken: int
    """The step at which the model's logits were not finite; 0 if they always were."""
    counts: NDArray[np.int64]
    """Hypotheses of each sentence."""
    lengths: NDArray[np.int64]
    """Tokens of each hypothesis."""
    scores: NDArray[np.float32]
    log_probs: NDArray[np.float32]
    weights: NDArray[np.float32]
    """Of one hypothesis after another: tokens × layers × heads × places."""
    tokens: NDArray[np.int32]
    work: NDArray[np.int64]
    """How much there was to do: steps that hypotheses took, and multiply-adds of their products with matrices."""


class Engine:
    """One decoder with its weights as they are now."""

    def __init__(self, decoder: Decoder[Any], precision: str = "float32", positions: int = LONGEST) -> None:
        """Copy the weights; raises `UnknownError` for a decoder that the library does not know."""
        found = library()
        if found.calls is None or not found.offers(precision):
            raise UnknownError(found.words)
        self.calls = found.calls
        with torch.inference_mode():
            plan = DecoderPlan(decoder, positions)
        self.reading: Reading | None = None
        """What reads for it, where the library knows the encoder too."""
        self.looks = plan.looks
        self.words = decoder.output.out_features
        self.handle = plan.make(self.calls.regard_model, precision)
        weakref.finalize(self, self.calls.regard_forget_model, self.handle)

    def search(self, starts: Sequence[Any], asked: SearchRequest) -> Found:
        """Search for all sentences of several batches, given what the decoder's `start` yielded for each."""
        parts, tasks, kept = _lay_out(starts)
        count = len(tasks)
        tasks[:, 2] = asked.limits
        prefixes = _chain(asked.prefixes, tasks[:, 3:5])
        words = _chain([] if asked.words is None else asked.words, tasks[:, 5:7])
        banned = np.array(asked.banned, np.int32)
        result = self.calls.regard_search(
            self.handle,
            ctypes.addressof(asked.options),
            _at(tasks),
            _at(parts),
            count,
            _at(prefixes),
            _at(words),
            _at(banned),
            len(banned),
        )
        del kept
        try:
            error = self.calls.regard_error(result)
            if error:
                raise MemoryError(error.decode())
            kinds: tuple[type[Any], ...] = (np.int64, np.int64, np.float32, np.float32, np.float32, np.int32, np.int64)
            arrays = [self._read(result, number, kind) for number, kind in enumerate(kinds)]
            return Found(int(self.calls.regard_broken(result)), *arrays)
        finally:
            self.calls.regard_forget_result(result)

    def _read(self, result: int, number: int, kind: type[Any]) -> NDArray[Any]:
        size = ctypes.c_int64()
        at = self.calls.regard_array(result, number, ctypes.byref(size))
        if not size.value:
            return np.zeros(0, kind)
        block = ctypes.string_at(at, size.value * np.dtype(kind).itemsize)
        return np.frombuffer(bytearray(block), kind)


def _lay_out(starts: Sequence[Any]) -> tuple[NDArray[np.uint64], NDArray[np.int64], list[Tensor]]:
    """Say where each sentence's parts are; and return the tensors that hold them, which must live as long."""
    parts, tasks, kept = [], [], []
    for state in starts:
        tensors = [None if part is None else part.contiguous() for part in _parts(state)]
        rows = np.arange(state.mask.shape[0], dtype=np.uint64)
        columns = [
            np.zeros_like(rows) if part is None else np.uint64(part.data_ptr()) + rows * np.uint64(part.stride(0) * 4)
            for part in tensors
        ]
        parts.append(np.stack(columns, axis=1) if columns else np.zeros((len(rows), 0), np.uint64))
        task = np.zeros((len(rows), 7), np.int64)
        task[:, 0] = state.mask.sum(dim=1).numpy()
        task[:, 1] = state.mask.shape[1]
        tasks.append(task)
        kept += [part for part in tensors if part is not None]
    return np.concatenate(parts), np.concatenate(tasks), kept


def _parts(state: Any) -> list[Tensor | None]:
    """List the parts of a start, in the order in which the library reads them."""
    if isinstance(state, TransformerState):
        memories = [layer.source for layer in state.layers]
        return [part for memory in memories for part in ((None, None) if memory is None else memory[:2])]
    assert isinstance(state, RecurrentState)
    own = [part for cell in state.cells for part in cell]
    return [*own, state.fixed, *((None, None) if state.memory is None else state.memory[:2])]


def _chain(lists: Sequence[Sequence[int] | NDArray[np.int32]], spans: NDArray[np.int64]) -> NDArray[np.int32]:
    """Lay lists one after the other, and write down where each begins and ends."""
    if not lists:
        return np.zeros(0, np.int32)
    ends = np.cumsum([len(one) for one in lists])
    spans[:, 1] = ends
    spans[1:, 0] = ends[:-1]
    return np.concatenate([np.asarray(one, np.int32) for one in lists])


def _at(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)
