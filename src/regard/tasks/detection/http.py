"""`POST /api/detect`: a picture in, its objects out."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from regard.serve.batching_queue import BatchingQueue
from regard.serve.image_uploads import (
    BODY,
    UNSEEN,
    Attention,
    Name,
    Picture,
    SceneNumber,
    Split,
    Uploads,
    View,
    overlaid,
    stacked,
)
from regard.serve.request_limits import Limits, check_weights
from regard.serve.served_models import Served, find
from regard.tasks.detection.predictor import LEAST, QueryAttention
from regard.vision.detection.predict import Thing as Seen

Found = tuple[list[Seen], QueryAttention | None]


class Thing(BaseModel):
    """A detected object."""

    label: str
    score: float = Field(description="Probability of the class.")
    box: tuple[float, float, float, float] = Field(description="Left, top, right, bottom, in pixels of the picture.")


class Things(BaseModel):
    """The objects in a picture, most probable first."""

    model: str
    things: list[Thing]
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][thing][cell], cells row by row")
    view: str | None = None


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits, uploads: Uploads) -> APIRouter:
    """Return the router of the detection endpoint."""
    routes = APIRouter(prefix="/api", tags=["pictures"], responses=UNSEEN)

    @routes.post("/detect", openapi_extra=BODY, response_model_exclude_none=True)
    async def detect(
        request: Request,
        model: Name = None,
        scene: SceneNumber = None,
        split: Split = "test",
        least: Annotated[float, Query(ge=0, le=1, description="Minimum probability of an object.")] = LEAST,
        attention: Attention = False,
        view: View = False,
    ) -> Things:
        """Detect objects in a picture."""
        served = find(models, "detect", model)
        picture = await uploads.read(request, served, scene, split)
        look = attention or view

        def work(pictures: list[Picture]) -> list[Found]:
            found = served.reader.detect(stacked(pictures), least, masks=False)
            return [
                (things, served.reader.look(own.pixels, things) if look and things else None)
                for own, things in zip(pictures, found, strict=True)
            ]

        key = (served, "detect", least, look)
        ((things, looked),) = await asyncio.wrap_future(queue.ask(key, [picture], work))
        if looked is not None:
            check_weights(iter([looked.trace]), limits)
        return await run_in_threadpool(_things, served.name, things, looked, picture, attention, view)

    return routes


def _things(
    name: str, things: Sequence[Seen], looked: QueryAttention | None, picture: Picture, attention: bool, view: bool
) -> Things:
    shown = None
    if view and looked is not None:
        outlines = [[picture.on_shown(thing.box)] for thing in things]
        names = tuple(f"{thing.name} {thing.score:.0%}" for thing in things)
        shown = overlaid(replace(looked.trace, target=names), picture, looked.grid, outlines, phrases=True)
    return Things(
        model=name,
        things=[Thing(label=thing.name, score=thing.score, box=picture.on_whole(thing.box)) for thing in things],
        attention=looked.trace.to_json() if attention and looked is not None else None,
        view=shown,
    )
