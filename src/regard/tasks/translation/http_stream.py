"""`POST /api/translate/stream`: a text in, its translation out while it is written, as server-sent events."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import numpy as np
from fastapi import APIRouter
from pydantic import BaseModel, Field

from regard.decoding.translation import Translation
from regard.serve.batching_queue import BatchingQueue
from regard.serve.event_stream import KIND, EventStream, Steps, event, event_stream, with_errors
from regard.serve.http_errors import message_of
from regard.serve.request_limits import Limits, check_texts
from regard.serve.served_models import Served, beam_for, find
from regard.tasks.translation.http_models import Beam, Options, translate

_STREAMED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": (
            "Events `token`, whose data is a `Draft`, while the translation is written; then an event `end`, whose "
            "data is what `/api/translate` answers, or `error`, whose data is a `Problem`."
        ),
        "content": {KIND: {}},
    }
}


class WantedStream(Options):
    """The text to translate, and options; only `text` is required."""

    text: str = Field(examples=["the red dress"], json_schema_extra={"x-limit": "characters"})
    beam: Beam = Field(1, description="Beam size; by default 1, greedy search; null for the model's own setting.")


class Draft(BaseModel):
    """What has been written so far. Greedy search only adds to it; a larger beam may change its mind."""

    text: str = Field(description="The translation so far.")
    kept: int = Field(description="How many tokens of the draft before are still there, from the first on.")
    tokens: list[str] = Field(description="The tokens after these.")
    probabilities: list[float] = Field(description="Their probabilities.")
    weights: list[list[float]] | None = Field(
        None, description="Their attention to the tokens of `source`, the mean over layers and heads."
    )
    source: list[str] | None = Field(None, description="The tokens of the text, in the first draft.")


def add_stream(routes: APIRouter, models: Sequence[Served], queue: BatchingQueue, limits: Limits) -> None:
    """Add the endpoint to the router of translation."""
    steps = Steps(queue, "translate/stream", limits.streams)

    @routes.post("/translate/stream", response_class=EventStream, responses=_STREAMED)
    async def stream(wanted: WantedStream) -> EventStream:
        """Translate a text while its client reads along.

        The steps of the search take turns with the batches of other requests. The end is what `/api/translate` answers
        to the same options.
        """
        served = find(models, "translate", wanted.model)
        check_texts([wanted.text], limits)
        events = _events(served, wanted, steps, queue, limits)
        first = await anext(events)  # so that what is wrong has a status of its own
        return event_stream(with_errors(_after(first, events), message_of))


async def _events(
    served: Served, wanted: WantedStream, steps: Steps, queue: BatchingQueue, limits: Limits
) -> AsyncIterator[str]:
    before: Translation | None = None
    if not wanted.glossary:  # terms are searched for in another way, without steps
        beam = beam_for(served, wanted.beam, wanted.n_best)
        drafts = served.reader.drafts(wanted.text, beam=beam, to=wanted.to)
        async for draft in steps.run(served, drafts):
            yield event("token", _draft(draft, before))
            before = draft
    yield event("end", await translate(served, wanted, [wanted.text], queue, limits))


async def _after(first: str, events: AsyncIterator[str]) -> AsyncIterator[str]:
    yield first
    async for each in events:
        yield each


def _draft(now: Translation, before: Translation | None) -> Draft:
    old = () if before is None else before.tokens
    kept = next((place for place, pair in enumerate(zip(old, now.tokens, strict=False)) if pair[0] != pair[1]), None)
    kept = min(len(old), len(now.tokens)) if kept is None else kept
    trace = now.attention
    look = trace.look()[kept:].astype(float).round(4).tolist() if trace.weights.size else None
    return Draft(
        text=now.text,
        kept=kept,
        tokens=list(now.tokens[kept:]),
        probabilities=[round(float(np.exp(value)), 6) for value in trace.log_probs[kept:]],
        weights=look,
        source=list(trace.source) if before is None else None,
    )
