"""The routes that belong to no task: the list of models, health, readiness and metrics."""

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, Field

import regard
from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import SAID, said
from regard.serve.metrics import Metrics
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served

_NOT_READY = 503


class About(BaseModel):
    """A model that is served."""

    name: str
    task: str
    reads: str
    path: str
    does: str
    preset: str
    parameters: int
    beam: int
    from_languages: list[str] = Field(description="Codes of the languages that it reads, where it says them.")
    to_languages: list[str] = Field(description="Codes of the languages that it writes, where it says them.")
    tags: list[str]
    examples: list[str]
    scenes: bool


class Health(BaseModel):
    """The health of the server."""

    status: str
    version: str
    models: int


class Ready(BaseModel):
    """The server can answer requests."""

    status: str


def add_server_routes(
    app: FastAPI, models: Sequence[Served], queue: BatchingQueue, metrics: Metrics, limits: Limits
) -> None:
    """Add the routes to an app."""
    not_ready: dict[str, Any] = {**SAID[_NOT_READY], "description": "The server is stopping, or a batch is stuck."}
    numbers: dict[str, Any] = {"description": "Counters and histograms", "content": {"text/plain": {}}}

    @app.get("/api/models", tags=["server"], responses={status: SAID[status] for status in (401, 429)})
    async def list_models() -> list[About]:
        """List the served models. Requests that name no model use the first one of their task."""
        return [About(**model.entry) for model in models]

    @app.get("/health", tags=["server"])
    async def health() -> Health:
        """Report that the server is running."""
        return Health(status="ok", version=regard.__version__, models=len(models))

    @app.get("/ready", tags=["server"], responses={_NOT_READY: not_ready}, response_model=Ready)
    async def ready() -> JSONResponse:
        """Report whether requests can be answered: for a load balancer, which is to send them elsewhere if not."""
        if app.state.leaving:
            return said(_NOT_READY, "The server is stopping.")
        if not queue.is_at_work(limits.seconds):
            return said(_NOT_READY, f"No batch was finished for {limits.seconds:g} s.")
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", tags=["server"], response_class=Response, responses={200: numbers})
    def count() -> Response:
        """Return counters and histograms in the text format of Prometheus."""
        return Response(metrics.page(), headers={"Content-Type": CONTENT_TYPE_LATEST})
