"""`POST /api/classify`: a picture in, classes out, with heat maps if requested."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from regard.errors import ModelError
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
    stacked,
)
from regard.serve.request_limits import Limits
from regard.serve.served_models import Served, find
from regard.tasks.image_classification.predictor import Guess
from regard.vision.class_heatmaps import heat_maps
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_page import image_part
from regard.viz.overlay_picture import HeatMap


class Class(BaseModel):
    """A class with its probability."""

    label: str
    probability: float


class Reason(BaseModel):
    """A heat map that explains a class: Grad-CAM, or attention rollout, which is the same for all classes."""

    name: str
    method: str
    cells: list[list[float]] = Field(description="Rows × columns over the picture, non-negative.")


class Classified(BaseModel):
    """The most probable classes, best first."""

    model: str
    classes: list[Class]
    reasons: list[Reason] | None = None
    view: str | None = None


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits, uploads: Uploads) -> APIRouter:
    """Return the router of the classification endpoint."""
    routes = APIRouter(prefix="/api", tags=["pictures"], responses=UNSEEN)

    @routes.post("/classify", openapi_extra=BODY, response_model_exclude_none=True)
    async def classify(
        request: Request,
        model: Name = None,
        scene: SceneNumber = None,
        split: Split = "test",
        top: Annotated[int, Query(ge=1, le=1_000, description="How many classes.")] = 3,
        attention: Attention = False,
        view: View = False,
    ) -> Classified:
        """Classify a picture."""
        served = find(models, "classify", model)
        picture = await uploads.read(request, served, scene, split)
        why = attention or view
        work = _classifying(served, top, why)
        ((guesses, maps),) = await asyncio.wrap_future(queue.ask((served, "classify", top, why), [picture], work))
        return await run_in_threadpool(_classified, served.name, guesses, maps, picture, attention, view)

    return routes


def _classifying(
    served: Served, top: int, why: bool
) -> Callable[[list[Picture]], list[tuple[list[Guess], list[HeatMap]]]]:
    reader = served.reader

    def work(pictures: list[Picture]) -> list[tuple[list[Guess], list[HeatMap]]]:
        guesses = reader.classify(stacked(pictures), top)
        return [(own, _reasons(served, picture) if why else []) for own, picture in zip(guesses, pictures, strict=True)]

    return work


def _reasons(served: Served, picture: Picture) -> list[HeatMap]:
    """Return heat maps of the most probable classes; none if the classifier supports no method."""
    try:
        return heat_maps(served.reader.model, picture.pixels, served.reader.labels.names)
    except ModelError:
        return []


def _classified(
    name: str, guesses: Sequence[Guess], maps: Sequence[HeatMap], picture: Picture, attention: bool, view: bool
) -> Classified:
    reasons = [Reason(name=each.name, method=each.note, cells=each.cells.astype(float).tolist()) for each in maps]
    return Classified(
        model=name,
        classes=[Class(label=guess.label, probability=guess.probability) for guess in guesses],
        reasons=reasons if attention else None,
        view=_explained(maps, picture) if view and maps else None,
    )


def _explained(maps: Sequence[HeatMap], picture: Picture) -> str:
    """Return HTML that shows the heat maps over the picture, one at a time."""
    names = [f"{each.name}, {each.note}" for each in maps]
    parts = [each.cells / (float(each.cells.sum()) or 1.0) for each in maps]
    if len({part.shape for part in parts}) > 1:
        names, parts = names[:1], parts[:1]
    return image_part(ImageTrace.of(picture.shown, names, np.stack(parts)), each=True, phrases=True)
