"""Translate whole texts and documents, each between its languages, with all sentences in common batches."""

from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from fastapi.concurrency import run_in_threadpool

from regard.serve.batching_queue import BatchingQueue
from regard.serve.language_routing import Route
from regard.serve.sentence_translation import Rendering, translate_sentences
from regard.serve.text_documents import Document

Written = TypeVar("Written", str, bytes)


class Job(NamedTuple, Generic[Written]):
    """A document to translate."""

    document: Document[Written]
    language: str
    """The language it is in."""
    route: Route | None
    """How it is translated; None where it is in the target language already."""


async def translate_documents(
    jobs: Sequence[Job[Written]], queue: BatchingQueue, longest: int, alternatives: int = 0
) -> list[list[Written]]:
    """Return each document translated, the best translation first, then alternatives that differ from it.

    A sentence of more than `longest` characters is cut.
    """
    split = await run_in_threadpool(lambda: [job.document.split(job.language, longest) for job in jobs])
    found: list[dict[str, list[Rendering]]] = [_as_they_are(sentences) for sentences in split]
    routes = dict.fromkeys(job.route for job in jobs if job.route is not None)
    for route in routes:
        places = [place for place, job in enumerate(jobs) if job.route == route]
        made = await translate_sentences(
            queue,
            route.served,
            [sentence for place in places for sentence in split[place]],
            tag=route.tag,
            n_best=alternatives + 1,
            links=any(jobs[place].document.needs_links for place in places),
        )
        for place in places:
            found[place] = made
    return await run_in_threadpool(
        lambda: [
            _distinct(job.document.join(own, rank) for rank in range(alternatives + 1))
            for job, own in zip(jobs, found, strict=True)
        ]
    )


def _as_they_are(sentences: Iterable[str]) -> dict[str, list[Rendering]]:
    return {sentence: [Rendering(sentence, tuple(range(len(sentence.split()))))] for sentence in sentences}


def _distinct(written: Iterable[Written]) -> list[Written]:
    return list(dict.fromkeys(written))
