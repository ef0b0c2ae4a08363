"""Dynamic batching: a request queue, and one worker thread that takes concurrent requests from it as a batch.

One thread serves all models: torch already uses all cores, and models need not be thread-safe.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from regard.errors import RegardError

logger = logging.getLogger("regard")

Work = Callable[[list[Any]], Sequence[Any]]
"""Takes a batch of inputs and returns one answer each, in order."""


class BusyError(Exception):
    """The request queue is full or closed."""


@dataclass(eq=False)
class _Job:
    key: Hashable
    things: Sequence[Any]
    work: Work
    answer: Future[list[Any]] = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)


class Monitor(Protocol):
    """Is told what the queue does; it is called by several threads."""

    def queued(self, length: int) -> None:
        """So many inputs are waiting."""

    def batch(self, seconds: float, answers: Sequence[Any]) -> None:
        """A batch was run."""


class BatchingQueue:
    """A queue that batches jobs with the same key, up to `most` inputs per batch.

    While one batch runs, the next one accumulates. If the last batch had several jobs, more are likely to arrive soon,
    so a job then waits up to `wait` seconds for them. A single client never waits. A job that is cancelled while it
    waits leaves the queue at once.
    """

    def __init__(self, most: int = 64, wait: float = 0.005, room: int = 1_024, monitor: Monitor | None = None) -> None:
        self.most, self.wait, self.room, self._monitor = most, wait, room, monitor
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._open, self._together = True, False
        self._begun: float | None = None
        self._thread = threading.Thread(target=self._serve, name="regard-batching", daemon=True)
        self._thread.start()

    def ask(self, key: Hashable, things: Sequence[Any], work: Work, *, begun: bool = False) -> "Future[list[Any]]":
        """Queue inputs to be batched with others of the same key; the future gets one answer per input.

        What was `begun` by an earlier job is queued even when the queue is full.
        """
        job = _Job(key, things, work)
        with self._changed:
            if not self._open or (not begun and self._length() + len(things) > self.room):
                raise BusyError
            self._waiting.append(job)
            self._changed.notify()
            self._report()
        job.answer.add_done_callback(lambda answer: self._drop(job) if answer.cancelled() else None)
        return job.answer

    @property
    def is_full(self) -> bool:
        """Whether no further input has room."""
        return self.length >= self.room

    @property
    def length(self) -> int:
        """How many inputs are waiting."""
        with self._changed:
            return self._length()

    def is_at_work(self, patience: float) -> bool:
        """Return whether jobs are accepted, and no batch has been running for more than `patience` seconds."""
        begun = self._begun
        late = begun is not None and time.monotonic() - begun > patience
        return self._open and self._thread.is_alive() and not late

    def close(self, patience: float = 10.0) -> None:
        """Reject new jobs, finish the queued ones, and end the thread."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join(patience)

    def _serve(self) -> None:
        while self._serve_batch():
            pass

    def _serve_batch(self) -> bool:
        """Run the next batch; return whether there was one. A function of its own, so that nothing outlives it."""
        jobs = self._gather()
        self._begun = time.monotonic()
        self._do([job for job in jobs if job.answer.set_running_or_notify_cancel()])
        self._begun = None
        return bool(jobs)

    def _gather(self) -> list[_Job]:
        """Wait for the next batch and return it; empty when the queue is closed and nothing is left."""
        with self._changed:
            while self._open and not self._waiting:
                self._changed.wait()
            if not self._waiting:
                return []
            first = self._waiting[0]
            until = first.came + self.wait if self._together else 0.0
            while self._open and (left := until - time.monotonic()) > 0 and not self._full(first.key):
                self._changed.wait(left)
            taken = self._take(first.key)
            self._together = len(taken) > 1
            return taken

    def _full(self, key: Hashable) -> bool:
        return sum(len(job.things) for job in self._waiting if job.key == key) >= self.most

    def _take(self, key: Hashable) -> list[_Job]:
        taken: list[_Job] = []
        count = 0
        for job in [job for job in self._waiting if job.key == key]:
            if taken and count + len(job.things) > self.most:
                break
            taken.append(job)
            count += len(job.things)
        gone = {id(job) for job in taken}
        self._waiting = deque(job for job in self._waiting if id(job) not in gone)
        self._report()
        return taken

    def _drop(self, job: _Job) -> None:
        with self._changed:
            if job in self._waiting:
                self._waiting.remove(job)
                self._report()

    def _length(self) -> int:
        return sum(len(job.things) for job in self._waiting)

    def _report(self) -> None:
        if self._monitor is not None:
            self._monitor.queued(self._length())

    def _do(self, jobs: Sequence[_Job]) -> None:
        """Run jobs as one batch; if that fails, each by itself, so that one bad request does not fail the others."""
        if not jobs:
            return
        begun = time.monotonic()
        try:
            answers = list(jobs[0].work([thing for job in jobs for thing in job.things]))
            places = iter(answers)
            shares = [[next(places) for _ in job.things] for job in jobs]
        except BaseException as error:
            if len(jobs) > 1 and isinstance(error, RegardError):
                for job in jobs:
                    self._do([job])
                return
            for job in jobs:
                job.answer.set_exception(error)
            return
        if self._monitor is not None:
            try:
                self._monitor.batch(time.monotonic() - begun, answers)
            except Exception:  # measuring may fail for a new kind of answer; the answers, and the queue's thread, go on
                logger.exception("regard: a batch could not be measured.")
        for job, share in zip(jobs, shares, strict=True):
            job.answer.set_result(share)
