"""Not waiting: batches are made before they are asked for, and numbers are read when the device has them."""

import threading
from collections.abc import Iterator
from queue import Queue
from types import TracebackType
from typing import Generic, TypeVar

import torch

from regard.shapes import Float, Tensor

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Makes what an iterator yields in a thread of its own, a few ahead of who takes it.

    What goes wrong in the thread is raised where the next one is taken. The thread ends with the `with` block.
    """

    def __init__(self, made: Iterator[Made], most: int) -> None:
        """`most` are ready at a time."""
        self._made = made
        self._ready: Queue[tuple[Made] | BaseException] = Queue(most)
        self._stopped = False
        self._thread = threading.Thread(target=self._work, name="regard-ahead", daemon=True)

    def __enter__(self) -> "Prefetcher[Made]":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped = True
        while not self._ready.empty():  # room for one is enough: after that the thread sees that it is to stop
            self._ready.get()
        self._thread.join()

    def take(self) -> Made:
        """Return the next one, as soon as it is there."""
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        return found[0]

    def _work(self) -> None:
        try:
            for made in self._made:
                self._ready.put((made,))
                if self._stopped:
                    return
            raise RuntimeError("There is nothing left to take.")
        except BaseException as error:
            self._ready.put(error)


class AsyncScalars:
    """Numbers on their way from the device; nobody waits for them before they are read."""

    def __init__(self, values: Float[Tensor, " N"]) -> None:
        self._there: torch.cuda.Event | None = None
        self._values = values
        if values.is_cuda:
            self._values = torch.empty(values.shape, dtype=values.dtype, pin_memory=True)
            self._values.copy_(values, non_blocking=True)
            self._there = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._there.record()

    def read(self) -> list[float]:
        """Return them; what the device was given to do later is not waited for."""
        if self._there is not None:
            self._there.synchronize()
        found: list[float] = self._values.tolist()
        return found
