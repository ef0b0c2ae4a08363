"""The server as an ASGI app: the API, its documentation, and the web page."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline
from starlette.middleware.cors import CORSMiddleware

import regard
from regard.serve.access import Access, AccessMiddleware
from regard.serve.api_keys import ApiKeys
from regard.serve.batching_queue import BatchingQueue
from regard.serve.deadline import Deadline
from regard.serve.http_errors import Overload, add_problems
from regard.serve.image_uploads import Uploads
from regard.serve.libretranslate import UNKNOWN_KEY as LIBRETRANSLATE_UNKNOWN
from regard.serve.libretranslate import libretranslate_routes
from regard.serve.metrics import Metrics
from regard.serve.open_api import describe_server
from regard.serve.request_limits import BodyLimit, Limits
from regard.serve.request_log import ID, RequestLog
from regard.serve.served_models import Served
from regard.serve.server_routes import add_server_routes
from regard.serve.translated_files import TranslatedFiles
from regard.serve.web_page import add_page
from regard.task import open_task
from regard.task_table import TASKS


def make_app(
    models: Sequence[Served],
    limits: Limits | None = None,
    *,
    batch: int = 64,
    wait: float = 0.005,
    keys: ApiKeys | None = None,
    origins: Sequence[str] = (),
) -> FastAPI:
    """Return the app; up to `batch` texts or pictures that arrive within `wait` seconds form one batch.

    With `keys`, `/api/…` and LibreTranslate's paths need one of them. Pages of other `origins`, such as
    `https://example.org`, may use the API.
    """
    limits = limits or Limits()
    metrics, access = Metrics(), Access(keys, limits.rate)
    queue = BatchingQueue(batch, wait, limits.waiting, metrics)
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
        docs_url=None,  # `add_page` adds it, with a policy
        redoc_url=None,
        lifespan=living,
    )
    app.state.access, app.state.queue, app.state.leaving = access, queue, False
    _add_layers(app, access, metrics, limits, origins, queue)
    add_problems(app)
    add_server_routes(app, models, queue, metrics, limits)
    uploads = Uploads(limits)
    for entry in TASKS:
        router = open_task(entry).routes(models, queue, limits, uploads)
        if router is not None:
            app.include_router(router)
    admit = partial(access.admit, unknown=LIBRETRANSLATE_UNKNOWN)
    app.include_router(libretranslate_routes(models, queue, limits, files, admit, needs_key=keys is not None))
    add_page(app)
    describe_server(app, models, limits, needs_key=keys is not None)
    return app


def _add_layers(
    app: FastAPI, access: Access, metrics: Metrics, limits: Limits, origins: Sequence[str], queue: BatchingQueue
) -> None:
    """Add what every request passes through, from the innermost layer to the outermost."""
    app.add_middleware(Deadline, seconds=limits.seconds)
    app.add_middleware(BodyLimit, most=limits.bytes)
    app.add_middleware(Overload, queue=queue)
    app.add_middleware(AccessMiddleware, access=access)
    if origins:
        own = ["Authorization", "Content-Type", ID]
        app.add_middleware(CORSMiddleware, allow_origins=origins, allow_headers=own, expose_headers=[ID, "Retry-After"])
    app.add_middleware(RequestLog, metrics=metrics, leaving=lambda: app.state.leaving)
