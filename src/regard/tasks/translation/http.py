"""`POST /api/translate`: texts in, texts out, with where the model looked if that is wanted."""

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
    """What is to be translated, and how; only the texts must be given."""

    model_config = ConfigDict(extra="forbid", strict=True)

    texts: list[str] = Field(min_length=1, examples=[["the red dress"]])
    model: str | None = Field(None, description="A name of /api/models; the first that translates, unless given.")
    beam: int | None = Field(None, ge=1, le=MOST_BEAM, description="Hypotheses kept at each step; the model's own.")
    n_best: int = Field(1, ge=1, le=MOST_BEST, description="Translations of each text, best first.")
    candidates: int = Field(0, ge=0, le=MOST_CANDIDATES, description="Tokens to tell of at each step, in `attention`.")
    to: str | None = Field(None, description="What to write, for a model that was trained with several tags.")
    glossary: dict[TermText, TermText] = Field(
        {}, max_length=MOST_TERMS, description="Terms of the texts, and what must occur in the translations for them."
    )
    attention: bool = Field(False, description="Tell where the model looked: a trace as `regard attend` writes it.")
    view: bool = Field(False, description="Also give the trace as HTML for the page.")


class Translated(BaseModel):
    """What was written of one text."""

    text: str
    score: float = Field(description="What the search ranks by: log-probability after penalties.")
    tokens: list[str] = Field(description="As the model wrote them, the end mark included.")
    attention: dict[str, Any] | None = Field(None, description="weights[layer][head][target token][source token]")
    view: str | None = None
    n_best: list["Translated"] = Field([], description="What came after, best first.")


class Translations(BaseModel):
    """A translation for each text, in order."""

    model: str
    translations: list[Translated]


def routes(models: Sequence[Served], queue: BatchingQueue, limits: Limits) -> APIRouter:
    """Return what can be asked of models that read texts."""
    routes = APIRouter(prefix="/api", tags=["texts"], responses=SAID)

    @routes.post("/translate", response_model_exclude_none=True)
    async def translate(wanted: Wanted) -> Translations:
        """Translate texts; a language model continues them. Requests that come together are one batch."""
        served = find(models, "translate", wanted.model)
        check_texts(wanted.texts, limits)
        look = wanted.attention or wanted.view
        options = {"beam": wanted.beam, "n_best": wanted.n_best, "to": wanted.to, "look": look}
        options["candidates"] = min(wanted.candidates, served.reader.tokenizers.target.size)

        def work(texts: list[str]) -> list[Translation]:
            found: list[Translation] = served.reader.translate(texts, glossary=wanted.glossary, **options)
            return found

        key = (served.name, "translate", *sorted(options.items()), *sorted(wanted.glossary.items()))
        found = await asyncio.wrap_future(queue.ask(key, wanted.texts, work))
        check_weights((each.attention for best in found for each in (best, *best.n_best)), limits)
        made = await run_in_threadpool(lambda: [as_answer(each, wanted.attention, wanted.view) for each in found])
        return Translations(model=served.name, translations=made)

    return routes


def as_answer(found: Translation, attention: bool, view: bool) -> Translated:
    """Write what was found as a client gets it."""
    trace = found.attention
    return Translated(
        text=found.text,
        score=found.score,
        tokens=list(found.tokens),
        attention=trace.to_json() if attention else None,
        view=text_part(trace) if view and trace.target else None,
        n_best=[as_answer(other, attention, view) for other in found.n_best],
    )
