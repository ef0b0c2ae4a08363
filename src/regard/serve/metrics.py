"""Counters and histograms of a server, in the format of Prometheus."""

import os
from collections.abc import Sequence
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that names the folder where several workers add up their numbers; to be set before the first import."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_REFUSALS = {
    401: "key",
    403: "key",
    408: "slow_client",
    413: "too_large",
    429: "rate",
    499: "client_left",
    503: "busy",
    504: "timeout",
}
"""Why a request was refused or given up, by its status."""


class Metrics:
    """The metrics of one server; workers of the same server write theirs to a common folder."""

    def __init__(self) -> None:
        own = self._registry = CollectorRegistry()
        self._requests = Counter("regard_requests", "Requests answered.", ("path", "method", "status"), registry=own)
        self._seconds = Histogram(
            "regard_request_seconds", "Time from the first byte of a request to the end of its answer.", ("path",),
            buckets=_SECONDS, registry=own,
        )  # fmt: skip
        self._refusals = Counter("regard_refusals", "Requests refused or given up.", ("reason",), registry=own)
        self._queue = Gauge(
            "regard_queue_length",
            "Texts and pictures that wait for a batch.",
            registry=own,
            multiprocess_mode="livesum",
        )
        self._sizes = Histogram("regard_batch_size", "Texts or pictures of a batch.", buckets=_SIZES, registry=own)
        self._batches = Histogram("regard_batch_seconds", "Time of a batch.", buckets=_SECONDS, registry=own)
        self._tokens = Counter("regard_tokens", "Tokens written by models.", registry=own)

    def request(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request that was answered or given up."""
        self._requests.labels(path, method, status).inc()
        self._seconds.labels(path).observe(seconds)
        if status in _REFUSALS:
            self._refusals.labels(_REFUSALS[status]).inc()

    def queued(self, length: int) -> None:
        """Record the length of the queue."""
        self._queue.set(length)

    def batch(self, seconds: float, answers: Sequence[Any]) -> None:
        """Record a batch that was run."""
        self._sizes.observe(len(answers))
        self._batches.observe(seconds)
        self._tokens.inc(sum(map(_tokens, answers)))

    def page(self) -> bytes:
        """Return all metrics as Prometheus reads them; with several workers, the sums over all."""
        if SHARED not in os.environ:
            return generate_latest(self._registry)
        every = CollectorRegistry()
        MultiProcessCollector(every)  # type: ignore[no-untyped-call]
        return generate_latest(every)


def _tokens(answer: Any) -> int:
    """Count the tokens of an answer of any task: of a translation, a caption, a step of a stream; of others none."""
    return len(getattr(getattr(answer, "best", answer), "tokens", ()))
