"""`POST /api/caption`: a picture in, a caption out, with the attention if requested."""

import asyncio
from collections.abc import Sequence
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
from regard.serve.request_limits import MOST_BEAM, MOST_BEST, MOST_CANDIDATES, Limits, check_weights
from regard.serve.served_models import Served, beam_for, find
from regard.tasks.captioning.predictor import PictureCaption

Beam = Annotated[
    int | None, Query(ge=1, le=MOST_BEAM, description="Beam size, at least `n_best`; the model's setting by default.")
]


class Caption(BaseModel):
    """A caption of a picture."""

    text: str
    score: float = Field(description="Log-probability with penalties, by which hypotheses are ranked.")
    tokens: list[str] = Field(description="The tokens as generated, end token included.")
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][token][cell], cells row by row")


class Captioned(Caption):
    """The best caption, and the rest of the n-best list."""

    model: str
    grid: tuple[int, int] = Field(description="Rows and columns of the cells that attention is over.")
    view: str | None = None
    n_best: list[Caption] = Field([], description="The next best captions, best first.")


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits, uploads: Uploads) -> APIRouter:
    """Return the router of the caption endpoint."""
    routes = APIRouter(prefix="/api", tags=["pictures"], responses=UNSEEN)

    @routes.post("/caption", openapi_extra=BODY, response_model_exclude_none=True)
    async def caption(
        request: Request,
        model: Name = None,
        scene: SceneNumber = None,
        split: Split = "test",
        beam: Beam = None,
        n_best: Annotated[int, Query(ge=1, le=MOST_BEST)] = 1,
        candidates: Annotated[int, Query(ge=0, le=MOST_CANDIDATES)] = 0,
        attention: Attention = False,
        view: View = False,
    ) -> Captioned:
        """Describe a picture."""
        served = find(models, "caption", model)
        picture = await uploads.read(request, served, scene, split)
        options = {"beam": beam_for(served, beam, n_best), "n_best": n_best, "look": attention or view}
        options["candidates"] = min(candidates, served.reader.tokenizers.target.size)

        def work(pictures: list[Picture]) -> list[PictureCaption]:
            found: list[PictureCaption] = served.reader.caption(stacked(pictures), **options)
            return found

        key = (served, "caption", *sorted(options.items()))
        (found,) = await asyncio.wrap_future(queue.ask(key, [picture], work))
        check_weights((each.attention for each in (found.best, *found.best.n_best)), limits)
        return await run_in_threadpool(_captioned, served.name, found, picture, attention, view)

    return routes


def _captioned(name: str, found: PictureCaption, picture: Picture, attention: bool, view: bool) -> Captioned:
    every = [
        Caption(
            text=each.text,
            score=each.score,
            tokens=list(each.tokens),
            attention=each.attention.to_json() if attention else None,
        )
        for each in (found.best, *found.best.n_best)
    ]
    return Captioned(
        **every[0].model_dump(),
        model=name,
        grid=found.grid,
        view=overlaid(found.best.attention, picture, found.grid) if view else None,
        n_best=every[1:],
    )
