"""`POST /api/translate`: texts in, translations out, with the attention if requested."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.decoding.translation import Translation
from regard.serve.batching_queue import BatchingQueue
from regard.serve.http_errors import SAID
from regard.serve.request_limits import MOST_BEAM, MOST_BEST, MOST_CANDIDATES, Limits, check_texts, check_weights
from regard.serve.served_models import Served, find
from regard.viz.trace_page import text_part

MOST_TERMS = 1000

TermText = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Wanted(BaseModel):
    """The texts to translate, and options; only `texts` is required."""

    model_config = ConfigDict(extra="forbid", strict=True)

    texts: list[str] = Field(min_length=1, examples=[["the red dress"]])
    model: str | None = Field(None, description="A name from /api/models; by default the first translator.")
    beam: int | None = Field(None, ge=1, le=MOST_BEAM, description="Beam size; the model's setting by default.")
    n_best: int = Field(1, ge=1, le=MOST_BEST, description="Number of translations of each text, best first.")
    candidates: int = Field(
        0, ge=0, le=MOST_CANDIDATES, description="Number of top tokens to list at each step, in `attention`."
    )
    to: str | None = Field(None, description="Tag of the language to write, for a model trained with several tags.")
    glossary: dict[TermText, TermText] = Field(
        {}, max_length=MOST_TERMS, description="Source terms, and the target terms they must be translated to."
    )
    attention: bool = Field(False, description="Return the attention, as `regard attend` writes it to .json.")
    view: bool = Field(False, description="Also return the attention as HTML for the web page.")


class Translated(BaseModel):
    """The translation of one text."""

    text: str
    score: float = Field(description="Log-probability with penalties, by which hypotheses are ranked.")
    tokens: list[str] = Field(description="The tokens as generated, end token included.")
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][target token][source token]")
    view: str | None = None
    n_best: list["Translated"] = Field([], description="The next best translations, best first.")


class Translations(BaseModel):
    """A translation for each text, in order."""

    model: str
    translations: list[Translated]


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits) -> APIRouter:
    """Return the router of the translation endpoint."""
    routes = APIRouter(prefix="/api", tags=["texts"], responses=SAID)

    @routes.post("/translate", response_model_exclude_none=True)
    async def translate(wanted: Wanted) -> Translations:
        """Translate texts; a language model continues them. Concurrent requests are batched."""
        served = find(models, "translate", wanted.model)
        check_texts(wanted.texts, limits)
        look = wanted.attention or wanted.view
        options = {"beam": wanted.beam, "n_best": wanted.n_best, "to": wanted.to, "look": look}
        options["candidates"] = min(wanted.candidates, served.reader.tokenizers.target.size)

        def work(texts: list[str]) -> list[Translation]:
            found: list[Translation] = served.reader.translate(texts, glossary=wanted.glossary, **options)
            return found

        key = (served, "translate", *sorted(options.items()), *sorted(wanted.glossary.items()))
        found = await asyncio.wrap_future(queue.ask(key, wanted.texts, work))
        check_weights((each.attention for best in found for each in (best, *best.n_best)), limits)
        made = await run_in_threadpool(lambda: [as_answer(each, wanted.attention, wanted.view) for each in found])
        return Translations(model=served.name, translations=made)

    return routes


def as_answer(found: Translation, attention: bool, view: bool) -> Translated:
    """Convert a translation to the response model."""
    trace = found.attention
    return Translated(
        text=found.text,
        score=found.score,
        tokens=list(found.tokens),
        attention=trace.to_json() if attention else None,
        view=text_part(trace) if view and trace.target else None,
        n_best=[as_answer(other, attention, view) for other in found.n_best],
    )
