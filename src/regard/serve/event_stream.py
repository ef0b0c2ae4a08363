"""Server-sent events of work that is done a step at a time in the batching queue, between the batches of others."""

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Hashable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from fastapi.responses import StreamingResponse
from pydantic import BaseModel

from regard.errors import RegardError
from regard.serve.batching_queue import BatchingQueue, BusyError
from regard.serve.http_errors import Problem

KIND = "text/event-stream"
_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class EventStream(StreamingResponse):
    """A response of server-sent events."""

    media_type = KIND


def event_stream(events: AsyncIterator[str]) -> EventStream:
    """Return a response that nothing on the way keeps back or stores."""
    return EventStream(events, headers=_HEADERS)


class _Step(NamedTuple):
    """What a step made: a value, an error, or neither at the end."""

    value: Any = None
    error: RegardError | None = None


class Steps:
    """Steps of iterators that run in the queue: each step is a job, so that a long stream holds nobody up."""

    def __init__(self, queue: BatchingQueue, key: Hashable, most: int) -> None:
        """Streams with the same key step together; at most `most` run at once."""
        self._queue, self._key, self._most, self._running = queue, key, most, 0

    async def run(self, key: Hashable, values: Generator[Any, None, None]) -> AsyncIterator[Any]:
        """Yield the values of a generator, then close it; raise a BusyError where there is no room to begin."""
        if self._running >= self._most:
            raise BusyError
        self._running += 1
        job: Future[list[_Step]] = Future()
        try:
            begun = False
            while True:
                job = self._queue.ask((self._key, key), [values], _advance, begun=begun)
                (step,) = await asyncio.wrap_future(job)
                if step.error is not None:
                    raise step.error
                if step.value is None:
                    return
                yield step.value
                begun = True
        finally:
            self._running -= 1
            job.cancel()
            job.add_done_callback(lambda _: values.close())  # at once, or after the step that is being made


def _advance(every: Sequence[Iterator[Any]]) -> list[_Step]:
    """Advance each iterator by one; an error is only its own."""
    return [_next(each) for each in every]


def _next(values: Iterator[Any]) -> _Step:
    try:
        return _Step(next(values, None))
    except RegardError as error:
        return _Step(error=error)


def event(name: str, data: BaseModel) -> str:
    """Write an event."""
    return f"event: {name}\ndata: {data.model_dump_json(exclude_none=True)}\n\n"


async def with_errors(events: AsyncIterator[str], message: Callable[[Exception], str | None]) -> AsyncIterator[str]:
    """Pass on events; an error that `message` knows, once the answer has begun, is a last event `error`."""
    try:
        async for each in events:
            yield each
    except Exception as error:
        told = message(error)
        if told is None:
            raise
        yield event("error", Problem(error=told))
