"""Translate the sentences of documents through the batching queue."""

import asyncio
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from regard.decoding.translation import Translation
from regard.serve.batching_queue import BatchingQueue, BusyError
from regard.serve.served_models import Served
from regard.viz.trace import AttentionTrace

PAUSE = 0.1
"""Seconds until the rest of a document is offered to a full queue again."""
PATIENCE = 100
"""How often it is."""


class Rendering(NamedTuple):
    """A translation of a sentence."""

    text: str
    links: tuple[int, ...]
    """For each of its words, the place of the source word that had most of the attention; empty unless wanted."""


async def translate_sentences(
    queue: BatchingQueue, served: Served, sentences: Sequence[str], *, tag: str | None, n_best: int, links: bool
) -> dict[str, list[Rendering]]:
    """Return the translations of each distinct sentence, best first.

    A batch is queued when the one before is done, so that a long document does not fill the queue for everybody.
    """
    own = served.config.decoding.beam
    options = {"n_best": n_best, "beam": n_best if n_best > own else None, "to": tag, "look": links}

    def work(texts: list[str]) -> list[list[Rendering]]:
        found: list[Translation] = served.reader.translate(texts, **options)
        return [
            [_rendering(text, each, links) for each in (best, *best.n_best)]
            for text, best in zip(texts, found, strict=True)
        ]

    distinct = list(dict.fromkeys(sentences))
    made: dict[str, list[Rendering]] = {}
    for start in range(0, len(distinct), queue.most):
        batch = distinct[start : start + queue.most]
        key = (served, "sentences", *options.items())
        made.update(zip(batch, await _ask(queue, key, batch, work, PATIENCE if start else 0), strict=True))
    return made


async def _ask(queue: BatchingQueue, key: Any, batch: list[str], work: Any, patience: int) -> list[list[Rendering]]:
    """Queue a batch; with `patience` wait for room, so that a document that was begun is not thrown away."""
    while True:
        try:
            return await asyncio.wrap_future(queue.ask(key, batch, work))
        except BusyError:
            if not patience:
                raise
            patience -= 1
            await asyncio.sleep(PAUSE)


def _rendering(sentence: str, found: Translation, links: bool) -> Rendering:
    return Rendering(found.text, word_links(sentence, found.text, found.attention) if links else ())


def word_links(source: str, target: str, trace: AttentionTrace) -> tuple[int, ...]:
    """Return the source word of each target word: that with most attention, or for a model without, that in its place.

    Both are counted in words between white space.
    """
    read, written = len(source.split()), len(target.split())
    if trace.weights.shape[0] and trace.target_words and read and written:
        weights = trace.words()
        if weights.shape == (written, read):
            return tuple(int(place) for place in np.argmax(weights, axis=1))
    return tuple(place * read // written for place in range(written))
