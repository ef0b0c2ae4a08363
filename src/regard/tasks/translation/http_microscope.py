"""`POST /api/translate/edit`, `/step`, `/tree`, `/self-attention`, `/attribution`: a translation opened up.

Each request is a job of its own in the queue: what they compute cannot be batched, and they take turns with the rest.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from regard.decoding.editing import EditedTranslation
from regard.serve.batching_queue import BatchingQueue
from regard.serve.request_limits import MOST_CANDIDATES, TOO_LARGE, Limits, check_texts, check_weights
from regard.serve.served_models import Served, beam_for, find
from regard.task_table import TEXT
from regard.tasks.translation.http_edits import (
    Edited,
    Labels,
    Measures,
    Own,
    Step,
    Tree,
    WantedEdit,
    WantedStep,
    WantedTree,
)
from regard.viz.token_labels import friendly
from regard.viz.trace import SPECIAL
from regard.viz.trace_page import text_part

MOST_NODES = 20_000
"""In a tree."""
MOST_OWN = 512
"""Source or target tokens for self-attention, whose weights grow with their square."""
MOST_PAIRS = 40_000
"""Source × target tokens for attribution, which runs the model once for each source and each target token."""

CANDIDATES = 5
"""Of each step of an edited translation."""

Found = TypeVar("Found")


def add_microscope(routes: APIRouter, models: Sequence[Served], queue: BatchingQueue, limits: Limits) -> None:
    """Add the endpoints to the router of translation."""

    def opened(wanted: WantedTree) -> Served:
        readers = [model for model in models if model.task.path != "translate" or model.task.entry.reads == TEXT]
        check_texts([wanted.text], limits)
        return find(readers, "translate", wanted.model)

    @routes.post("/translate/edit")
    async def edit(wanted: WantedEdit) -> Edited:
        """Translate with edited attention, and compare with the translation without edits."""
        served, edits = opened(wanted), wanted.read_edits()
        found = await _alone(queue, served, lambda: _edited(served, wanted, edits))
        check_weights(iter([found.attention]), limits)
        return await run_in_threadpool(_edited_answer, served, found)

    @routes.post("/translate/step")
    async def step(wanted: WantedStep) -> Step:
        """Return the model's own numbers at one step: scores, mask, weights, contributions, and top tokens."""
        served, edits = opened(wanted), wanted.read_edits()

        def work() -> Step:
            found = _edited(served, wanted, edits)
            told = served.reader.explain_step(found, wanted.step, candidates=MOST_CANDIDATES)
            special = found.attention.special
            names = friendly([*found.tokens, *(token for token, _ in told.candidates)], special)[len(found.tokens) :]
            labels = Labels(source=list(friendly(told.source, special)), target=list(names))
            return Step(model=served.name, labels=labels, **finite(told.to_json()))

        return await _alone(queue, served, work)

    @routes.post("/translate/tree")
    async def tree(wanted: WantedTree) -> Tree:
        """Return every hypothesis that the beam search kept, pruned or finished."""
        served = opened(wanted)

        def work() -> Tree:
            found = served.reader.search_tree(wanted.text, beam_for(served, wanted.beam, 1), wanted.to)
            if len(found.nodes) > MOST_NODES:
                what = f"The tree has {len(found.nodes):,} nodes; at most {MOST_NODES:,} are sent"
                raise HTTPException(TOO_LARGE, f"{what}: send a shorter text or a smaller beam.")
            labels = friendly([node.token for node in found.nodes], SPECIAL)
            return Tree(model=served.name, labels=list(labels), **finite(found.to_json()))

        return await _alone(queue, served, work)

    @routes.post("/translate/self-attention")
    async def self_attention(wanted: WantedEdit) -> Own:
        """Return the self-attention of a Transformer's encoder and decoder, with the edits."""
        served, edits = opened(wanted), wanted.read_edits()

        def work() -> tuple[EditedTranslation, Any]:
            found = _edited(served, wanted, edits)
            longest = max(len(found.attention.source), len(found.tokens))
            if longest > MOST_OWN:
                most = f"at most {MOST_OWN} are possible for self-attention. Send a shorter text"
                raise HTTPException(TOO_LARGE, f"The text or its translation has {longest:,} tokens; {most}.")
            return found, served.reader.self_attention(found)

        found, own = await _alone(queue, served, work)
        check_weights((one for one in (own.encoder, own.decoder) if one is not None), limits)
        told = await run_in_threadpool(own.to_json)
        return Own(model=served.name, labels=_labels(found), **told)

    @routes.post("/translate/attribution")
    async def attribution(wanted: WantedEdit) -> Measures:
        """Return occlusion and gradient × input beside the attention, and how far they agree.

        The tokens are those of the edited translation; the edits of weights are not applied.
        """
        served, edits = opened(wanted), wanted.read_edits()

        def work() -> Measures:
            found = _edited(served, wanted, edits)
            pairs = len(found.attention.source) * len(found.tokens)
            if pairs > MOST_PAIRS:
                most = f"at most {MOST_PAIRS:,} are possible for attribution. Send a shorter text"
                raise HTTPException(TOO_LARGE, f"There are {pairs:,} pairs of source and target tokens; {most}.")
            told = finite(served.reader.attribution(found).to_json())
            kept = {name: told[name] for name in Measures.model_fields if name in told}
            return Measures(model=served.name, labels=_labels(found), **kept)

        return await _alone(queue, served, work)


async def _alone(queue: BatchingQueue, served: Served, work: Callable[[], Found]) -> Found:
    """Run in the queue, in no batch: no other job has its key."""
    (found,) = await asyncio.wrap_future(queue.ask((served, object()), [None], lambda _: [work()]))
    return found  # type: ignore[no-any-return]


def _edited(served: Served, wanted: WantedEdit, edits: Sequence[Any]) -> EditedTranslation:
    beam = beam_for(served, wanted.beam, 1)
    candidates = min(CANDIDATES, served.reader.tokenizers.target.size)
    found: EditedTranslation = served.reader.edit(wanted.text, edits, beam=beam, candidates=candidates, to=wanted.to)
    return found


def _edited_answer(served: Served, found: EditedTranslation) -> Edited:
    told = finite(found.to_json())
    return Edited(
        model=served.name,
        text=found.text,
        before=found.before.text,
        score=found.score,
        tokens=list(found.tokens),
        labels=_labels(found),
        edits=told["edits"],
        comparison=told["comparison"],
        attention=found.attention.to_json(),
        view=text_part(found.attention) if found.tokens else "",
    )


def _labels(found: EditedTranslation) -> Labels:
    trace = found.attention
    return Labels(
        source=list(friendly(trace.source, trace.special)), target=list(friendly(trace.target, trace.special))
    )


def finite(told: Any) -> Any:
    """Return plain lists and dictionaries with null for numbers that JSON has not."""
    if isinstance(told, dict):
        return {name: finite(value) for name, value in told.items()}
    if isinstance(told, list | tuple):
        return [finite(value) for value in told]
    return None if isinstance(told, float) and not math.isfinite(told) else told
