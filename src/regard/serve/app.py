"""The server as an ASGI app: the API, its documentation, and the web page."""

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
from regard.serve.libretranslate import libretranslate_routes
from regard.serve.request_limits import BodyLimit, Limits
from regard.serve.served_models import Served, about
from regard.serve.translated_files import TranslatedFiles
from regard.task import open_task
from regard.task_table import TASKS
from regard.viz.word_stepper import text

_POLICY = (
    "default-src 'none'; connect-src 'self'; img-src 'self' data: blob:; script-src 'self'; "
    "style-src 'self' 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""The page fetches only from its own server and runs only its own script, whatever a text contains."""
_HEADERS = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
_PARTS = ("word_stepper", "overlay_page", "trace_page")
"""Styles and scripts that the page shares with the pages that `regard attend` writes."""


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
    """The health of the server."""

    status: str
    version: str
    models: int


def make_app(
    models: Sequence[Served], limits: Limits | None = None, *, batch: int = 64, wait: float = 0.005
) -> FastAPI:
    """Return the app; up to `batch` texts or pictures that arrive within `wait` seconds form one batch."""
    limits = limits or Limits()
    queue = BatchingQueue(batch, wait, limits.waiting)
    files = TranslatedFiles()

    @asynccontextmanager
    async def living(app: FastAPI) -> AsyncIterator[None]:
        yield
        queue.close()
        files.close()

    app: FastAPI = FastAPIOffline(
        title="regard",
        description="Sequence-to-sequence models with attention: get outputs, and the attention behind them.",
        version=regard.__version__,
        redoc_url=None,
        lifespan=living,
    )
    app.add_middleware(BodyLimit, most=limits.bytes)
    add_problems(app)
    told = [About(**about(model)) for model in models]

    @app.get("/api/models", tags=["server"])
    def list_models() -> list[About]:
        """List the served models. Requests that name no model use the first one of their task."""
        return told

    @app.get("/health", tags=["server"])
    def health() -> Health:
        """Report that the server is running."""
        return Health(status="ok", version=regard.__version__, models=len(told))

    uploads = Uploads(limits)
    for entry in TASKS:
        router = open_task(entry).routes(models, queue, limits, uploads)
        if router is not None:
            app.include_router(router)
    app.include_router(libretranslate_routes(models, queue, limits, files))
    _add_page(app)
    return app


def _add_page(app: FastAPI) -> None:
    """Add the routes of the web page, whose style and script are assembled once."""
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
