"""Comparing text classifiers: how many test texts they get right, how fast, and the attention of some texts."""

import time
from dataclasses import replace
from pathlib import Path

from regard.compare.scoring import Example, TaskScores
from regard.compare.training_run import Job
from regard.tasks.text_classification.evaluation import evaluate_texts
from regard.tasks.text_classification.predictor import TextLabeller

WARM_UP = 64
"""Texts classified before the clock starts."""


def compare(folder: Path, job: Job) -> TaskScores:
    """Score a variant's model on the test corpus."""
    corpus = job.test.open()
    pairs, labeller = list(corpus), TextLabeller.load(folder, job.config.training.device)
    labeller.log_probs([pair.source for pair in pairs[:WARM_UP]])
    began = time.perf_counter()
    report = evaluate_texts(labeller, pairs, corpus.name)
    seconds = time.perf_counter() - began
    examples = []
    for found in labeller.classify(list(job.sentences)):
        trace = found.attention
        shown = replace(trace, weights=trace.look()[None, None], candidates=()) if trace.weights.shape[0] else None
        examples.append(Example(found.text, found.label, shown, f"{found.probability:.0%}"))
    fingerprint = labeller.tokenizers.fingerprint
    return TaskScores(report, seconds, labeller.model, f"{len(labeller.classes):,} classes", fingerprint, examples)
