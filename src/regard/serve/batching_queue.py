"""Requests that come together are worked on as one batch: a queue, and one thread that takes from it.

One thread does all the work of all models: torch uses all cores by itself, and models need not be asked twice at once.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from regard.errors import RegardError

Work = Callable[[list[Any]], Sequence[Any]]
"""Takes things and returns as many answers, in order."""


class BusyError(Exception):
    """More is waiting already than is taken on."""


@dataclass(eq=False)
class _Job:
    key: Hashable
    things: Sequence[Any]
    work: Work
    answer: Future[list[Any]] = field(default_factory=Future)
    came: float = field(default_factory=time.monotonic)


class BatchingQueue:
    """Takes jobs as they come; those with the same key are done at once, up to so many things.

    While one batch is worked on, the next one gathers by itself. Where the last batch was of several jobs, more are
    likely to come: a job then waits for them, for `wait` seconds at most. A client that is alone never waits.
    """

    def __init__(self, most: int = 64, wait: float = 0.005, room: int = 1_024) -> None:
        self.most, self.wait, self.room = most, wait, room
        self._waiting: deque[_Job] = deque()
        self._changed = threading.Condition()
        self._open, self._together = True, False
        self._thread = threading.Thread(target=self._serve, name="regard-batching", daemon=True)
        self._thread.start()

    def ask(self, key: Hashable, things: Sequence[Any], work: Work) -> "Future[list[Any]]":
        """Queue things to be worked on together with others of the same key; the future has an answer for each."""
        job = _Job(key, things, work)
        with self._changed:
            if not self._open or sum(len(other.things) for other in self._waiting) + len(things) > self.room:
                raise BusyError
            self._waiting.append(job)
            self._changed.notify()
        return job.answer

    def close(self, patience: float = 10.0) -> None:
        """Take nothing on any more, do what is waiting, and let the thread end."""
        with self._changed:
            self._open = False
            self._changed.notify()
        self._thread.join(patience)

    def _serve(self) -> None:
        while jobs := self._gather():
            _do([job for job in jobs if job.answer.set_running_or_notify_cancel()])

    def _gather(self) -> list[_Job]:
        """Wait for the next batch; there is none when the queue has closed and nothing is left."""
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
        self._waiting = deque(job for job in self._waiting if job not in taken)
        return taken


def _do(jobs: Sequence[_Job]) -> None:
    """Do jobs at once; where that fails, each by itself, so that nobody's fault is another's."""
    if not jobs:
        return
    try:
        answers = list(jobs[0].work([thing for job in jobs for thing in job.things]))
        places = iter(answers)
        shares = [[next(places) for _ in job.things] for job in jobs]
    except BaseException as error:
        if len(jobs) > 1 and isinstance(error, RegardError):
            for job in jobs:
                _do([job])
            return
        for job in jobs:
            job.answer.set_exception(error)
        return
    for job, share in zip(jobs, shares, strict=True):
        job.answer.set_result(share)
