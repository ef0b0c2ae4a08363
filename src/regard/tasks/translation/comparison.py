"""Score a translator for `regard compare`: translations, speed, and the attention of a few example sentences."""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from regard.compare.scored_data import Subject
from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.compare.variants import Terms, choose_sentences
from regard.config import DecodingConfig
from regard.data.corpus import Corpus, for_model
from regard.decoding.translation import Translation
from regard.decoding.translator import Translator
from regard.tasks.translation.evaluation import evaluate

BATCH = 64
"""Batch size, in sentences."""


class TimedTranslator(Translator):
    """A translator that measures its time."""

    seconds = 0.0

    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
        """Translate texts and add the time taken to `seconds`."""
        began = time.perf_counter()
        found = super().translate(texts, **options)  # the result is text on the host, so no device work is pending
        self.seconds += time.perf_counter() - began
        return found


def find_subject(corpus: Corpus, terms: Terms) -> Subject:
    """Return the references and the example sentences."""
    pairs = list(corpus)
    sentences = terms.sentences or choose_sentences(pairs)
    right = {pair.source: pair.target for pair in pairs if pair.source in sentences}
    return Subject(corpus.name, [pair.target for pair in pairs], sentences, right)


def compare(folder: Path, job: Job, options: DecodingConfig) -> TaskScores:
    """Score a variant's model on the test corpus."""
    corpus = job.test.open()
    loaded = Translator.load(folder, job.config.training.device)
    translator = TimedTranslator(loaded.model, loaded.tokenizers, options, loaded.longest, loaded.shortlist)
    reads = translator.model.reads
    pairs = list(for_model(corpus, reads))
    if reads:
        translator.translate([pair.source for pair in pairs[:BATCH]], batch_size=BATCH)  # warm-up
        translator.seconds = 0.0
    report = evaluate(translator, pairs, data=corpus.name, options=options, batch_size=BATCH)
    seconds, tokenizers = translator.seconds, translator.tokenizers
    examples = _examples(translator, job.sentences) if reads else []
    knows = f"{tokenizers.target.kind}, {tokenizers.target.size:,} entries"
    return TaskScores(report, seconds, translator.model, knows, tokenizers.fingerprint, examples)


def _examples(translator: Translator, sentences: Sequence[str]) -> list[Example]:
    found = []
    for source, best in zip(sentences, translator.translate(list(sentences)), strict=True):
        trace, about = best.attention, f"score {best.score:.2f}"
        if trace.weights.shape[0]:
            about = trace.caption()
            trace = replace(trace, weights=trace.look()[None, None], candidates=())
        found.append(Example(source, best.text, trace if trace.weights.shape[0] else None, about))
    return found
