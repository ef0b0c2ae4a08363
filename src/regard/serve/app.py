"""The server as an ASGI app: the API with its documentation, and the page."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, Response
from fastapi_offline import FastAPIOffline
from pydantic import BaseModel

import regard
from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import add_problems
from regard.serve.image_uploads import Uploads
from regard.serve.request_limits import BodyLimit, Limits
from regard.serve.served_models import Served, about
from regard.task import open_task
from regard.task_table import TASKS
from regard.viz.word_stepper import text

_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches from its own server alone, and runs no script but its own, whatever a text says."""
_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
_PARTS = ("word_stepper", "overlay_page", "trace_page")
"""What the page shares with the pages that `regard attend` writes."""


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
    tags: list[str]
    examples: list[str]
    scenes: bool


class Health(BaseModel):
    """That the server is there."""

    status: str
    version: str
    models: int


def make_app(
    models: Sequence[Served], limits: Limits | None = None, *, batch: int = 64, wait: float = 0.005
) -> FastAPI:
    """Make a server of models; up to `batch` texts or pictures that come within `wait` seconds are one batch."""
    limits = limits or Limits()
    queue = BatchingQueue(batch, wait, limits.waiting)

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()

    app: FastAPI = FastAPIOffline(
        title="regard",
        description="Models that look back at what they read: ask them, and see where they looked.",
        version=regard.__version__,
        redoc_url=None,
        lifespan=living,
    )
    app.add_middleware(BodyLimit, most=limits.bytes)
    add_problems(app)
    told = [About(**about(model)) for model in models]

    @app.get("/api/models", tags=["server"])
    def list_models() -> list[About]:
        """List what is served; the first that does a task is asked where no model is named."""
        return told

    @app.get("/health", tags=["server"])
    def health() -> Health:
        """Say that the server is there."""
        return Health(status="ok", version=regard.__version__, models=len(told))

    uploads = Uploads(limits)
    for entry in TASKS:
        router = open_task(entry).routes(models, queue, limits, uploads)
        if router is not None:
            app.include_router(router)
    _add_page(app)
    return app


def _add_page(app: FastAPI) -> None:
    """Serve the page: its parts are put together once."""
    page, style, script = (_read(f"page.{kind}") for kind in ("html", "css", "js"))
    style = "".join(text(f"{part}.css") for part in _PARTS) + style
    script = "".join(text(f"{part}.js") for part in _PARTS) + script
    hidden: dict[str, Any] = {"include_in_schema": False}

    @app.get("/", **hidden)
    def home() -> Response:
        return HTMLResponse(page, headers={**_HEADERS, "Content-Security-Policy": _POLICY})

    @app.get("/page.css", **hidden)
    def styled() -> Response:
        return Response(style, media_type="text/css", headers=_HEADERS)

    @app.get("/page.js", **hidden)
    def scripted() -> Response:
        return Response(script, media_type="text/javascript", headers=_HEADERS)


def _read(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
