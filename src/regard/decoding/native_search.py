"""Beam search by the compiled C++ library, for the decoders that it supports: the same results in less time.

Texts are encoded, one batch per thread, and then searched all together; the library also encodes where it can.
"""

import contextlib
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import torch

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search_loop import no_translation, not_finite
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.token_limits import Rules
from regard.models.seq2seq import Seq2Seq
from regard.native.decoder import LONGEST, Engine, Found, Options, SearchRequest, UnknownError
from regard.native.encoder import Reading
from regard.native.library import library, tell_if_missing

ROWS = 160
"""Hypotheses per step of one thread: many share each weight that is read, few enough to stay in the caches."""
PLACES = 1 << 14
"""Source positions, padding included, that are encoded before they are searched."""

logger = logging.getLogger("regard")

Job = TypeVar("Job")
Done = TypeVar("Done")


class Engines:
    """The engines of one model, built on first use and rebuilt when its weights have changed."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[tuple[int, ...], int, Engine | None]] = {}
        self._told = False

    def find(self, model: Any, options: DecodingConfig, candidates: int, longest: int) -> Engine | None:
        """Return the engine for this search, or None if only the search in Python supports it.

        `longest` is the maximum number of tokens read or generated. A precision that is not available is reported once.
        """
        engine = self._find(model, options, candidates, longest)
        followed = options.precision == "float32" or (engine is not None and library().offers(options.precision))
        if not followed and not self._told:
            self._told = True
            logger.warning(
                "decoding.precision=%s is not available: %s. Matrix products are in float32.",
                "int8 (for --fast)" if options.precision == "int8" else options.precision,
                "the compiled library does not support this search, model or device"
                if library().offers(options.precision)
                else "the compiled library does not offer it here (regard doctor says why)",
            )
        return engine

    def _find(self, model: Any, options: DecodingConfig, candidates: int, longest: int) -> Engine | None:
        if options.method != "beam" or options.coverage_penalty or candidates or not isinstance(model, Seq2Seq):
            return None
        if next(model.parameters()).device.type != "cpu":
            return None
        tell_if_missing()
        precision = options.precision if library().offers(options.precision) else "float32"
        version = _version(model)
        known, positions, engine = self._made.get(precision, ((), LONGEST, None))
        if known != version or positions < longest:
            positions = max(positions, 1 << (longest - 1).bit_length())
            engine = _made(model, precision, positions)
            self._made[precision] = (version, positions, engine)
        return engine


def _made(model: Seq2Seq, precision: str, positions: int) -> Engine | None:
    try:
        engine = Engine(model.decoder, precision, positions)
    except UnknownError:
        return None
    with contextlib.suppress(UnknownError, MemoryError):
        engine.reading = Reading(model, precision, positions)
    return engine


def _version(model: Seq2Seq) -> tuple[int, ...]:
    """Return a fingerprint of the weights, by which an engine is rebuilt when they have changed.

    Torch counts in-place changes, but not those by fused optimizers, to `weight.data`, or to tensors made in inference
    mode: so a sample of the values is included.
    """
    weights = list(model.parameters())
    counted = sum(0 if weight.is_inference() else weight._version for weight in weights)
    places = np.array([weight.data_ptr() for weight in weights], np.uint64)
    calls = library().calls
    if calls is None or any(weight.dtype != torch.float32 or not weight.is_contiguous() for weight in weights):
        return (counted, *map(int, places))
    sizes = np.array([weight.numel() for weight in weights], np.int64)
    return (counted, calls.regard_fingerprint(places.ctypes.data, sizes.ctypes.data, len(weights)), *map(int, places))


def search_natively(
    engine: Engine, starts: Sequence[Any], options: DecodingConfig, requests: Sequence[DecodingRequest]
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of all sentences of several batches, each with its own request.

    `starts` are the results of the decoder's `start` for them.
    """
    request = requests[0]
    rules = [Rules.make(start.mask, options, own) for start, own in zip(starts, requests, strict=True)]
    for own in rules:
        own.not_banned(engine.words)
    asked = SearchRequest(
        Options(
            beam=options.beam,
            n_best=request.n_best,
            bos=request.bos,
            eos=request.eos,
            min_length=options.min_length,
            at_once=max(1, ROWS // options.beam),
            threads=torch.get_num_threads(),
            look=request.look,
            length_penalty=options.length_penalty,
            patience=options.patience,
        ),
        limits=[limit for own in rules for limit in own.limits.tolist()],
        prefixes=[[token for token in row if token >= 0] for own in rules for row in own.forced.tolist()],
        words=None if request.words is None else [one for own in requests for one in own.words or ()],
        banned=request.banned,
    )
    found = engine.search(starts, asked)
    if found.broken:
        raise not_finite(found.broken)
    places = [length for start in starts for length in start.mask.sum(dim=1).tolist()]
    return _hypotheses(found, places, engine.looks if request.look else (0, 1))


def _hypotheses(found: Found, places: Sequence[int], looks: tuple[int, int]) -> list[list[Hypothesis]]:
    """Split the library's result into hypotheses; `places` are the source lengths."""
    lengths, scores = found.lengths.tolist(), found.scores.tolist()
    log_probs, tokens, weights = found.log_probs.tolist(), found.tokens.tolist(), torch.from_numpy(found.weights)
    every, number, written, looked = [], 0, 0, 0
    for row, (count, size) in enumerate(zip(found.counts.tolist(), places, strict=True)):
        if not count:
            raise no_translation(row)
        own = []
        for _ in range(count):
            shape = (lengths[number], *looks, size)
            until, seen = written + shape[0], looked + shape[0] * shape[1] * shape[2] * size
            own.append(
                Hypothesis(
                    tokens[written:until], scores[number], log_probs[written:until], weights[looked:seen].view(shape)
                )
            )
            number, written, looked = number + 1, until, seen
        every.append(own)
    return every


def in_threads(function: Callable[[Job], Done], jobs: Sequence[Job]) -> list[Done]:
    """Run jobs in parallel, each with one torch thread: intra-op threads that wait for each other are slower."""
    threads = torch.get_num_threads()

    def alone(job: Job) -> Done:
        torch.set_num_threads(1)
        with torch.inference_mode():
            return function(job)

    try:
        if threads == 1 or len(jobs) == 1:
            return [alone(job) for job in jobs]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(alone, jobs))
    finally:
        torch.set_num_threads(threads)


def together(batches: Iterable[list[int]], lengths: Sequence[int]) -> list[list[list[int]]]:
    """Group batches that are encoded before any of them is searched."""
    groups: list[list[list[int]]] = []
    room = 0
    for batch in batches:
        places = len(batch) * max(lengths[row] for row in batch)
        if not groups or places > room:
            groups.append([])
            room = PLACES
        groups[-1].append(batch)
        room -= places
    return groups
