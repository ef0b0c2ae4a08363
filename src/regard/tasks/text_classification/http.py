"""`POST /api/classify-text`: texts in, classes out, with the attention of each word if that is wanted."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import SAID
from regard.serve.request_limits import WHOLE, Limits, check_texts, check_weights
from regard.serve.served_models import Served, find
from regard.tasks.text_classification.predictor import Labelled
from regard.viz.shaded_text import shaded_html


class WantedClasses(BaseModel):
    """What is to be classified; only the texts must be given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    texts: list[str] = Field(min_length=1, examples=[["a film to see twice"]], json_schema_extra={"x-limit": "texts"})
    model: str | None = Field(
        None,
        description="A name of /api/models; the first that classifies texts, unless given.",
        json_schema_extra={"x-limit": "models:classify-text"},
    )
    top: Annotated[int, Field(ge=1, le=1_000), WHOLE] = Field(3, description="How many classes.")
    attention: bool = Field(False, description="Return the attention weights: a trace as `regard attend` writes it.")
    view: bool = Field(False, description="Also return the text with its words shaded, as HTML.")


class TextClass(BaseModel):
    """A class that a text may be of."""

    label: str
    probability: float


class ClassesOfText(BaseModel):
    """The most probable classes of one text, best first."""

    classes: list[TextClass]
    sentences: list[float] | None = Field(None, description="The weight of each sentence, of a hierarchical model.")
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][0][token]")
    view: str | None = None


class ClassesOfTexts(BaseModel):
    """The classes of each text, in order."""

    model: str
    texts: list[ClassesOfText]


def routes(models: Sequence[Served], desk: BatchingQueue, limits: Limits) -> APIRouter:
    """Return what can be asked of models that classify texts."""
    routes = APIRouter(prefix="/api", tags=["texts"], responses=SAID)

    @routes.post("/classify-text", response_model_exclude_none=True)
    async def classify_text(wanted: WantedClasses) -> ClassesOfTexts:
        """Classify texts. Requests that come together are one batch."""
        served = find(models, "classify-text", wanted.model)
        check_texts(wanted.texts, limits)

        def work(texts: list[str]) -> list[Labelled]:
            found: list[Labelled] = served.reader.classify(texts, wanted.top)
            return found

        found = await asyncio.wrap_future(desk.ask((served, "classify-text", wanted.top), wanted.texts, work))
        if wanted.attention or wanted.view:
            check_weights((each.attention for each in found), limits)
        made = await run_in_threadpool(lambda: [_as_answer(each, wanted.attention, wanted.view) for each in found])
        return ClassesOfTexts(model=served.name, texts=made)

    return routes


def _as_answer(found: Labelled, attention: bool, view: bool) -> ClassesOfText:
    """Write what was found as a client gets it."""
    return ClassesOfText(
        classes=[TextClass(label=guess.label, probability=guess.probability) for guess in found.guesses],
        sentences=[sentence.weight for sentence in found.sentences] or None,
        attention=found.attention.to_json() if attention else None,
        view=shaded_html(found.attention, sentences=found.sentences) if view else None,
    )
