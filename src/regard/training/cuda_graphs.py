"""Gradients that a GPU makes again by itself: the kernels of a step are recorded once for each shape of a batch.

To launch a kernel takes the host longer than a small one takes the GPU, and a recurrent network has thousands of them
in a step. A CUDA graph is launched as one. What it reads and writes stays where it is: a batch is copied to where the
first of its shape lay, gradients are added to those that are there, and randomness is seeded before each replay as
before any other step. Encoders that ask the host for lengths read before the graph, and learn after it.
"""

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import torch

from regard.models.protocol import Encoded
from regard.shapes import Float, Tensor
from regard.task import BatchLoss, Objective

MOST = 128
"""Graphs that are kept; batches of further shapes are run as they come."""

Autocast = Callable[[], AbstractContextManager[Any]]


class Steps:
    """Leaves the gradient of batches, each added to what is there."""

    def __init__(self, objective: Objective, autocast: Autocast, device: torch.device) -> None:
        self._objective, self._autocast, self._device = objective, autocast, device

    def __call__(self, batch: Any, tokens: int | float, ratio: float = 1.0) -> BatchLoss:
        """Add the gradient of a batch, as one of so many tokens of a step; of infinitely many, it is nothing."""
        with self._autocast():
            made = self._objective(batch.to(self._device), ratio)
        (made.total / tokens).backward()  # type: ignore[no-untyped-call]
        return made._replace(total=made.loss)  # lets go of autograd's graph

    def all_of(self, batches: Sequence[Any], tokens: Sequence[int | float], ratio: float = 1.0) -> list[BatchLoss]:
        """Leave the gradient of all batches of a step."""
        return [self(batch, count, ratio) for batch, count in zip(batches, tokens, strict=True)]


class RecordedSteps(Steps):
    """The same on a GPU, for filled batches: the second of a shape is recorded, and with it all that follow.

    The first is run as it comes, so that kernels are compiled and libraries have set themselves up. A model that has to
    ask the device for a number cannot be recorded: that is said once, and all goes on without.
    """

    def __init__(
        self, objective: Objective, autocast: Autocast, device: torch.device, tell: Callable[[str], None]
    ) -> None:
        super().__init__(objective, autocast, device)
        self._tell = tell
        self._inside = not objective.reads_with_host
        self._seen: set[Any] = set()
        self._recorded: dict[Any, _Recorded] = {}
        self._records = True
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Any, tokens: int | float, ratio: float = 1.0) -> BatchLoss:
        """Add the gradient of a batch, as one of so many tokens of a step."""
        if ratio < 1 or not self._records:
            return super().__call__(batch, tokens, ratio)
        shape, first = batch.shape, not self._seen
        if shape not in self._recorded:
            if shape not in self._seen or len(self._recorded) >= MOST:
                self._seen.add(shape)
                with self._watching(first):
                    return super().__call__(batch, tokens)
            if not self._record(batch, shape):
                return super().__call__(batch, tokens)
        return self._recorded[shape].learn(batch, tokens)

    def _record(self, batch: Any, shape: Any) -> bool:
        random = torch.cuda.get_rng_state(self._device)
        try:
            self._recorded[shape] = _Recorded(
                self._objective, self._autocast, batch.to(self._device), self._pool, inside=self._inside
            )
        except RuntimeError as error:
            self._stop(str(error).strip().splitlines()[0])
        torch.cuda.set_rng_state(random, self._device)  # as if nothing had been tried
        return self._records

    def _stop(self, why: str) -> None:
        self._records = False
        self._tell(
            f"Steps of this model are launched kernel by kernel, which is slower: they cannot be recorded ({why})."
        )

    @contextmanager
    def _watching(self, watch: bool) -> Iterator[None]:
        """Find out whether the host waits for the device."""
        if not watch:
            yield
            return
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                yield
            finally:
                torch.cuda.set_sync_debug_mode("default")
        for one in caught:
            said = str(one.message)
            if "synchronizing CUDA operation" in said:
                self._stop(f"the host waits for the device at {one.filename.rpartition('regard/')[2]}:{one.lineno}")
                return
            if "prototype feature" not in said:
                warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)


class _Told(NamedTuple):
    """What a graph leaves, beside gradients."""

    numbers: Float[Tensor, " N"]
    """The loss and those beside it."""
    names: tuple[str, ...]
    reached: Float[Tensor, " B"] | None


class _Recorded:
    """The kernels of one shape."""

    def __init__(self, objective: Objective, autocast: Autocast, batch: Any, pool: Any, inside: bool) -> None:
        self._objective, self._autocast, self._batch = objective, autocast, batch
        self._share = torch.ones((), device=batch.source.device)
        self._leaves = None if inside else self._make_leaves()
        self._graph = torch.cuda.CUDAGraph()
        with _capturing(self._graph, pool):
            self._told = self._run()

    def _run(self) -> _Told:
        with self._autocast():
            encoded = self._objective.read(self._batch) if self._leaves is None else self._leaves
            made = self._objective.write(self._batch, encoded)
        (made.total * self._share).backward()  # type: ignore[no-untyped-call]
        numbers = torch.stack([made.loss, *made.beside.values()])
        return _Told(numbers, tuple(made.beside), made.reached)

    def _make_leaves(self) -> Encoded:
        """Make what the encoder's states are copied to, and their gradients found at."""
        with self._autocast():
            encoded: Encoded = self._objective.read(self._batch)
        made = {
            name: part.detach().clone().requires_grad_(part.requires_grad)
            for name, part in encoded._asdict().items()
            if part is not None
        }
        return encoded._replace(**made)

    def learn(self, batch: Any, tokens: int | float) -> BatchLoss:
        """Add the gradient of a batch, as one of so many tokens of a step."""
        for place, part in zip(self._batch.tensors(), batch.tensors(), strict=True):
            place.copy_(part, non_blocking=True)
        self._share.fill_(1.0 / tokens)
        read = self._read(batch)
        self._graph.replay()
        if read:
            torch.autograd.backward([part for part, _ in read], [leaf.grad for _, leaf in read])
        loss, *beside = self._told.numbers.clone().unbind()
        reached = None if self._told.reached is None else self._told.reached.clone()
        return BatchLoss(loss, loss, dict(zip(self._told.names, beside, strict=True)), reached)

    def _read(self, batch: Any) -> list[tuple[Tensor, Tensor]]:
        """Let the encoder read; return what it learns by, and where that is told."""
        if self._leaves is None:
            return []
        with self._autocast():
            encoded = self._objective.read(self._batch._replace(lengths=batch.lengths))
        pairs = zip(encoded, self._leaves, strict=True)
        both = [(part, leaf) for part, leaf in pairs if part is not None and leaf is not None]
        for part, leaf in both:
            leaf.detach().copy_(part.detach())
        return [(part, leaf) for part, leaf in both if leaf.grad is not None]


@contextmanager
def _capturing(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Record what is launched on the stream of now. Other threads may prepare batches meanwhile."""
    torch.cuda.synchronize()
    collects = gc.isenabled()
    gc.disable()  # what is freed meanwhile might wait for the device
    try:
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")
        try:
            yield
        finally:
            graph.capture_end()
    finally:
        if collects:
            gc.enable()


@contextmanager
def own_stream(device: torch.device) -> Iterator[None]:
    """Work on a stream that can be recorded: a GPU's first stream cannot."""
    if device.type != "cuda":
        yield
        return
    before = torch.cuda.current_stream(device)
    stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)
