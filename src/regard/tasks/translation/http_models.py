"""What `/api/translate` takes and answers, and how it is answered."""

import asyncio
from collections.abc import Sequence
from typing import Annotated, Any

from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from regard.decoding.translation import Translation
from regard.serve.batching_queue import BatchingQueue
from regard.serve.request_limits import (
    MOST_BEAM,
    MOST_BEST,
    MOST_CANDIDATES,
    WHOLE,
    Limits,
    check_weights,
)
from regard.serve.served_models import Served, beam_for
from regard.viz.trace_page import text_part

MOST_TERMS = 1000

SOME_TEXT = r"[^\s\x1c-\x1f\x85]"
"""A pattern of texts that have more than white space, which regular expressions do not agree on."""
TermText = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=SOME_TEXT)]
Beam = Annotated[int, Field(ge=1, le=MOST_BEAM), WHOLE] | None


class Options(BaseModel):
    """Options of a translation."""

    model_config = ConfigDict(extra="forbid", strict=True)

    model: str | None = Field(
        None,
        description="A name from /api/models; by default the first translator.",
        json_schema_extra={"x-limit": "models:translate"},
    )
    beam: Beam = Field(None, description="Beam size, at least `n_best`; the model's setting by default.")
    n_best: Annotated[int, Field(ge=1, le=MOST_BEST), WHOLE] = Field(
        1, description="Number of translations of each text, best first."
    )
    candidates: Annotated[int, Field(ge=0, le=MOST_CANDIDATES), WHOLE] = Field(
        0, description="Number of top tokens to list at each step, in `attention`."
    )
    to: str | None = Field(
        None,
        description="Tag of the language to write, for a model trained with several tags.",
        json_schema_extra={"x-limit": "tags"},
    )
    glossary: dict[TermText, TermText] = Field(
        {},
        max_length=MOST_TERMS,
        description="Source terms, and the target terms they must be translated to.",
        json_schema_extra={
            "propertyNames": {"minLength": 1, "maxLength": 200, "pattern": SOME_TEXT},
            "x-limit": "glossary",
        },
    )
    attention: bool = Field(False, description="Return the attention, as `regard attend` writes it to .json.")
    view: bool = Field(False, description="Also return the attention as HTML for the web page.")


class Wanted(Options):
    """The texts to translate, and options; only `texts` is required."""

    texts: list[str] = Field(min_length=1, examples=[["the red dress"]], json_schema_extra={"x-limit": "texts"})


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


async def translate(
    served: Served, wanted: Options, texts: Sequence[str], queue: BatchingQueue, limits: Limits
) -> Translations:
    """Translate texts, in a batch with those of other requests that have the same options."""
    look, reader = wanted.attention or wanted.view, served.reader
    options = {
        "beam": beam_for(served, wanted.beam, wanted.n_best),
        "n_best": wanted.n_best,
        "to": wanted.to,
        "look": look,
    }
    options["candidates"] = min(wanted.candidates, reader.tokenizers.target.size)

    def work(texts: list[str]) -> list[Translation]:
        found: list[Translation] = reader.translate(texts, glossary=wanted.glossary, **options)
        return found

    key = (served, "translate", *sorted(options.items()), *sorted(wanted.glossary.items()))
    found = await asyncio.wrap_future(queue.ask(key, texts, work))
    check_weights((each.attention for best in found for each in (best, *best.n_best)), limits)
    made = await run_in_threadpool(lambda: [as_answer(each, wanted.attention, wanted.view) for each in found])
    return Translations(model=served.name, translations=made)


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
