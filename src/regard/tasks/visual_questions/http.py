"""`POST /api/ask`: a picture and a question in, answers out."""

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
from regard.serve.request_limits import Limits, check_texts, check_weights
from regard.serve.served_models import Served, find
from regard.tasks.visual_questions.predictor import QuestionAnswer


class Answer(BaseModel):
    """An answer with its probability."""

    text: str
    probability: float


class Answers(BaseModel):
    """The most probable answers, best first."""

    model: str
    question: str
    answers: list[Answer]
    grid: tuple[int, int] = Field(description="Rows and columns of the cells that attention is over.")
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][word][cell], cells row by row")
    view: str | None = None


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits, uploads: Uploads) -> APIRouter:
    """Return the router of the question endpoint."""
    routes = APIRouter(prefix="/api", tags=["pictures"], responses=UNSEEN)

    @routes.post("/ask", openapi_extra=BODY, response_model_exclude_none=True)
    async def ask(
        request: Request,
        question: Annotated[
            str,
            Query(
                min_length=1,
                pattern=r"\S",
                description="The question about the picture, in words that the model knows.",
                json_schema_extra={"x-limit": "characters"},
            ),
        ],
        model: Name = None,
        scene: SceneNumber = None,
        split: Split = "test",
        top: Annotated[int, Query(ge=1, le=100, description="How many answers.")] = 3,
        attention: Attention = False,
        view: View = False,
    ) -> Answers:
        """Answer a question about a picture."""
        served = find(models, "ask", model)
        check_texts([question], limits)
        picture = await uploads.read(request, served, scene, split)
        look = attention or view

        def work(asked: list[tuple[Picture, str]]) -> list[QuestionAnswer]:
            pictures = stacked([each for each, _ in asked])
            found = served.reader.answer(pictures, [[text] for _, text in asked], top=top, look=look)
            return [each for (each,) in found]

        (found,) = await asyncio.wrap_future(queue.ask((served, "ask", top, look), [(picture, question)], work))
        if look:
            check_weights(iter([found.trace()]), limits)
        return await run_in_threadpool(_answers, served.name, found, picture, attention, view)

    return routes


def _answers(name: str, found: QuestionAnswer, picture: Picture, attention: bool, view: bool) -> Answers:
    return Answers(
        model=name,
        question=found.question,
        answers=[Answer(text=text, probability=probability) for text, probability in found.best],
        grid=found.grid,
        attention=found.trace().to_json() if attention else None,
        view=overlaid(found.trace(), picture, found.grid) if view else None,
    )
