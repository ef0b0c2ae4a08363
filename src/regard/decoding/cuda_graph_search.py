"""Beam search on a GPU with CUDA graphs: tensors of fixed shapes, and each step one graph replay.

The search in `search_loop.py` launches about a hundred small kernels per step, and syncs with the host to see which
sentences go on. Here the tensors of a step stay at fixed addresses, so one launch replays all kernels. A finished
sentence keeps its place and is ignored; the host learns of it some steps later, without a sync, and when most of a
batch is finished the rest moves to smaller buffers. Results are those of `search_loop.py`, but for rounding and, in a
beam wider than one, for equal scores (`top_k.py`).
"""

import logging
import sys
from collections import OrderedDict, deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from threading import Lock
from typing import Any

import torch

from regard.config import DecodingConfig
from regard.decoding.hypothesis import End, History, Hypothesis
from regard.decoding.search_loop import no_translation, not_finite
from regard.decoding.search_methods import DecodingRequest
from regard.decoding.static_search import BufferShape, SearchBuffers, SearchSettings, each, send
from regard.decoding.token_limits import NEVER, Rules, limit
from regard.models.protocol import Decoder, Encoded
from regard.shapes import Bool, Int, Tensor

SENTENCES = (1, 8, 64)
"""Capacities of buffers in sentences; beyond these, powers of two. Smaller ones would not use the GPU any better."""
PLACES = 16
"""Source lengths are padded to a multiple of this."""
STEPS = 32
"""Capacity of buffers in steps, or twice, four times, … as many."""
EVERY = 2
"""Number of steps between messages to the host about which sentences go on."""
BEHIND = 1
"""Number of messages that may be pending before the host reads one, so that the GPU's queue never runs empty."""
SHARE = 4
"""A batch moves to smaller buffers when at most one in this many of its places is still searched."""
KEPT = 24
"""Number of sets of buffers kept; the least recently used is dropped first."""

logger = logging.getLogger("regard")


class SearchGraphs:
    """The buffers and CUDA graphs of one model, created on first use and reused for batches of similar shapes."""

    def __init__(self, captures: bool = True, smallest: int = SENTENCES[-1]) -> None:
        """Without `captures`, kernels are launched one by one. No batch moves to buffers smaller than `smallest`."""
        self.smallest = smallest
        self._captures = captures
        self._buffers: OrderedDict[Any, SearchBuffers] = OrderedDict()
        self._pool: Any = None
        self._weights: tuple[int, ...] = ()
        self._known: tuple[Decoder[Any], bool] | None = None
        self._alone = Lock()  # buffers hold one search at a time

    @staticmethod
    def supports(options: DecodingConfig, request: DecodingRequest) -> bool:
        """Whether recorded steps support this search."""
        plain = options.method == "beam" and not options.coverage_penalty and not any(request.prefix or ())
        return (
            plain
            and not request.candidates
            and not request.look
            and request.words is None
            and request.constraints is None
        )

    def search(
        self,
        decoder: Decoder[Any],
        encoded: Encoded,
        options: DecodingConfig,
        request: DecodingRequest,
        lengths: Sequence[int] | None = None,
        meanwhile: Iterator[None] | None = None,
    ) -> list[list[Hypothesis]] | None:
        """Return what `beam_search` returns; None if the decoder has no steady state.

        `lengths` are the source lengths on the host, if known. `meanwhile` is work that the host does, one item at a
        time, while it would wait.
        """
        with torch.inference_mode(), self._alone:
            if not self._is_steady(decoder, encoded):
                return None
            read = encoded.mask.sum(dim=1).tolist() if lengths is None else lengths
            most = request.most or sys.maxsize
            limits = [min(limit(options, request.longest, length, ()), most) for length in read]
            return _Search(self, decoder, encoded, options, request, limits).found(meanwhile or iter(()))

    def _is_steady(self, decoder: Decoder[Any], encoded: Encoded) -> bool:
        if self._known is None or self._known[0] is not decoder:
            first = Encoded(*(None if part is None else part[:1] for part in encoded))  # type: ignore[arg-type]
            self._known = decoder, decoder.steady(first, 1, 1) is not None
        return self._known[1]

    def buffers(
        self,
        decoder: Decoder[Any],
        like: Encoded,
        options: DecodingConfig,
        request: DecodingRequest,
        shape: BufferShape,
    ) -> SearchBuffers:
        """Return buffers of this shape, created the first time."""
        weights = tuple(weight.data_ptr() for weight in decoder.parameters())
        if weights != self._weights:
            self._buffers.clear()
            self._weights = weights
        asked = SearchSettings(
            options.beam,
            request.n_best,
            request.bos,
            request.eos,
            frozenset(request.banned),
            options.min_length,
            options.length_penalty,
            options.patience,
        )
        key = (decoder, asked, shape)
        if key not in self._buffers:
            rules = Rules.make(like.mask[:1], options, replace(request, prefix=None))
            buffers = SearchBuffers(decoder, like, asked, shape, rules.not_banned(decoder.output.out_features))
            if like.mask.is_cuda and self._captures:
                self._capture(buffers)
            self._buffers[key] = buffers
            if len(self._buffers) > KEPT:
                self._buffers.popitem(last=False)
        self._buffers.move_to_end(key)
        return self._buffers[key]

    def _capture(self, buffers: SearchBuffers) -> None:
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        try:
            buffers.capture(self._pool)
        except RuntimeError as error:
            self._captures = False
            logger.warning(
                "Steps of this search cannot be recorded as a CUDA graph: launching kernels one by one, slower (%s).",
                str(error).strip().splitlines()[0],
            )


class _Search:
    """The search of one batch."""

    def __init__(
        self,
        graphs: SearchGraphs,
        decoder: Decoder[Any],
        encoded: Encoded,
        options: DecodingConfig,
        request: DecodingRequest,
        limits: list[int],
    ) -> None:
        """`limits` are the maximum lengths of the sentences."""
        self.graphs, self.decoder, self.encoded, self.options, self.request = graphs, decoder, encoded, options, request
        self.limits, self.longest = limits, max(limits)
        self.history = History()
        self.numbers = list(range(len(self.limits)))
        """The sentences still searched, in the order of their places."""
        self.recorded = 0
        """Number of steps in the history."""
        self.buffers = self._buffers(len(self.limits), 1)
        self.results = each(torch.clone, self.buffers.beams)
        """Results of finished sentences, by sentence number."""

    def _buffers(self, sentences: int, length: int) -> SearchBuffers:
        steps = STEPS
        while steps < (length if self.decoder.grows else self.longest):
            steps *= 2
        places = -(-self.encoded.mask.shape[1] // PLACES) * PLACES
        shape = BufferShape(room_for(sentences), places, steps)
        return self.graphs.buffers(self.decoder, self.encoded, self.options, self.request, shape)

    def found(self, meanwhile: Iterator[None]) -> list[list[Hypothesis]]:
        """Run steps until every sentence is finished."""
        self.buffers.begin(self.encoded, self.limits)
        told: deque[_HostCopy] = deque()
        for length in range(1, self.longest + 1):
            if length > self.buffers.shape.steps:
                larger = self._buffers(self.buffers.shape.sentences, length)
                self._move(torch.arange(len(self.numbers)), larger, length)
            self.buffers.advance()
            if length % EVERY:
                continue
            told.append(_HostCopy(self.buffers.beams.going))
            if len(told) <= BEHIND:
                continue
            going = [place for place, goes in enumerate(told.popleft().wait(meanwhile)[: len(self.numbers)]) if goes]
            if not going:
                break
            fewer = max(self.graphs.smallest, room_for(len(going)))
            if fewer * SHARE <= self.buffers.shape.sentences:
                self._move(torch.tensor(going), self._buffers(fewer, length), length + 1)
                told.clear()
        self._leave(length + 1)
        return self._hypotheses()

    def _move(self, places: Int[Tensor, " B"], buffers: SearchBuffers, length: int) -> None:
        """Continue in other buffers with the sentences in these places, before token number `length`."""
        self._leave(length)
        buffers.take_over(self.buffers, send(places, self.encoded.mask.device))
        self.buffers, self.numbers = buffers, [self.numbers[place] for place in places.tolist()]

    def _leave(self, length: int) -> None:
        """Save the results: the buffers may be reused before they are read."""
        count, numbers = len(self.numbers), send(torch.tensor(self.numbers), self.encoded.mask.device)
        for known, own in zip(self.results, self.buffers.beams, strict=True):
            known.index_copy_(0, numbers, own[:count])
        steps = [table[self.recorded : length - 1, :count].clone() for table in self.buffers.record]
        for tokens, parents, log_probs in zip(*steps, strict=True):
            self.history.record(self.numbers, tokens, parents, log_probs, None)
        self.recorded = length - 1

    def _hypotheses(self) -> list[list[Hypothesis]]:
        broken = int(self.buffers.broken)
        if broken:
            raise not_finite(broken)
        ends = [own[: self.request.n_best] for own in self._ends()]
        for number, own in enumerate(ends):
            if not own:
                raise no_translation(number)
        traced = iter(self.history.trace([end for own in ends for end in own], self.encoded.mask))
        return [[next(traced) for _ in own] for own in ends]

    def _ends(self) -> Iterator[list[End]]:
        """Yield where the hypotheses of each sentence end, best first: complete ones, then those cut off."""
        beams = self.results
        tables = [part[: len(self.limits)].tolist() for part in (beams.scores, beams.lengths, beams.slots, beams.cut)]
        for number, (scores, lengths, slots, cut) in enumerate(zip(*tables, strict=True)):
            complete = zip(scores, lengths, slots, strict=True)
            cut_off = sorted(((score, slot) for slot, score in enumerate(cut)), key=lambda end: -end[0])
            yield [
                *(End(number, length, slot, score) for score, length, slot in complete if score > NEVER),
                *(End(number, self.limits[number], slot, score) for score, slot in cut_off if score > NEVER),
            ]


class _HostCopy:
    """A message to the host about which sentences go on."""

    def __init__(self, going: Bool[Tensor, " B"]) -> None:
        self._event: Any = None
        if going.is_cuda:
            self._going = torch.empty(going.shape, dtype=torch.bool, pin_memory=True)
            self._going.copy_(going, non_blocking=True)
            self._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            self._event.record()
        else:
            self._going = going.clone()

    def wait(self, meanwhile: Iterator[None]) -> list[bool]:
        """Wait for the message, working on `meanwhile`."""
        while self._event is not None and not self._event.query():
            if next(meanwhile, self) is self:  # nothing left to do
                self._event.synchronize()
        return self._going.tolist()


def room_for(sentences: int) -> int:
    """Return the capacity of the smallest buffers for this many sentences."""
    return next((size for size in SENTENCES if size >= sentences), 1 << (sentences - 1).bit_length())
