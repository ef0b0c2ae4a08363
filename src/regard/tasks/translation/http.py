"""`POST /api/translate`: texts in, translations out, with the attention if requested."""

from collections.abc import Sequence

from fastapi import APIRouter

from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import SAID
from regard.serve.request_limits import Limits, check_texts
from regard.serve.served_models import Served, find
from regard.tasks.translation.http_microscope import add_microscope
from regard.tasks.translation.http_models import Translations, Wanted, translate
from regard.tasks.translation.http_stream import add_stream


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits) -> APIRouter:
    """Return the router of the translation endpoints."""
    routes = APIRouter(prefix="/api", tags=["texts"], responses=SAID)

    @routes.post("/translate", response_model_exclude_none=True)
    async def translate_texts(wanted: Wanted) -> Translations:
        """Translate texts; a language model continues them. Concurrent requests are batched."""
        served = find(models, "translate", wanted.model)
        check_texts(wanted.texts, limits)
        return await translate(served, wanted, wanted.texts, queue, limits)

    add_stream(routes, models, queue, limits)
    add_microscope(routes, models, queue, limits)
    return routes
