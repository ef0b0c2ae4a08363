"""Scoring a trained model on the common test corpus, once: `evaluation.json` in its folder keeps what was found."""

import importlib.metadata
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from regard.atomic_files import digest, write_atomically
from regard.compare.pictured import score_pictures
from regard.compare.training_run import Job
from regard.config import Config, DecodingConfig
from regard.data.corpus import for_model
from regard.decoding.translation import Translation
from regard.decoding.translator import Translator
from regard.evaluation.evaluate import evaluate
from regard.models.model_folder import WEIGHTS, learned, open_folder
from regard.viz.image_trace import FORMAT as OVER_IMAGE
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import AttentionTrace

FORMAT = "regard-evaluation-3"
FILE = "evaluation.json"
BATCH = 64
"""Sentences searched at once."""


@dataclass(frozen=True)
class Look:
    """What a model made of one of the sentences, or pictures, that are shown."""

    source: str
    text: str
    trace: AttentionTrace | ImageTrace | None
    """None where the model has no attention. Layers and heads are averaged: there is one of each."""
    about: str
    """The score, and what was averaged."""


@dataclass(frozen=True)
class Evaluation:
    """What is known about a trained model on the test corpus."""

    parameters: int
    vocabulary: str
    """What the target tokens are; losses can be compared only where it is the same."""
    tokenizers: str
    """What decides which tokens a text becomes."""
    scores: dict[str, dict[str, Any]]
    """By name, as `regard.evaluation.report.Score` has them; a language model has only its perplexity."""
    by_length: tuple[dict[str, Any], ...]
    search: str
    sentences: int
    seconds: float
    """Time that the translations took."""
    translations: tuple[str, ...]
    looks: tuple[Look, ...]
    unit: str = "sentences"
    """What `sentences` counts."""

    @property
    def main(self) -> str:
        """The name of the score that variants are measured against each other by: BLEU, or the first of pictures'."""
        return next(iter(self.scores), "") if self.unit != "sentences" else "BLEU"

    @property
    def of_all(self) -> dict[str, dict[str, Any]]:
        """The scores over all that there is, and not over a class or another part of it."""
        return {name: score for name, score in self.scores.items() if not score.get("partial")}

    def value(self, name: str) -> float | None:
        """Return a score's number, if there is one."""
        found = self.scores.get(name, {}).get("value")
        return None if found is None else float(found)

    @property
    def loss(self) -> float | None:
        """Return the loss per token in nats, of which the perplexity is the exponential."""
        found = self.value("perplexity")
        return None if found is None else math.log(found)

    @property
    def sentences_per_second(self) -> float | None:
        """Return the speed of translating, or of reading pictures."""
        return self.sentences / self.seconds if self.seconds else None


class Timed(Translator):
    """A translator that looks at its watch."""

    seconds = 0.0

    def translate(self, texts: Sequence[str], **options: Any) -> list[Translation]:
        """Translate, and add the time that it took."""
        began = time.perf_counter()
        found = super().translate(texts, **options)  # texts are on the host: nothing is still under way on a device
        self.seconds += time.perf_counter() - began
        return found


def score(folder: Path, job: Job) -> Evaluation:
    """Score a model, or return what was found when this was done before."""
    known = read(folder, job)
    if known is not None:
        return known
    record = _of_texts(folder, job) if job.config.model.image is None else _of_pictures(folder, job)
    whole = {"format": FORMAT, "key": _key(folder, job), **record}
    write_atomically(folder / FILE, json.dumps(whole, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    found = read(folder, job)
    assert found is not None
    return found


def _of_pictures(folder: Path, job: Job) -> dict[str, Any]:
    return score_pictures(folder, job, job.test.open_pictures(open_folder(folder)), search_options(folder, job))


def _of_texts(folder: Path, job: Job) -> dict[str, Any]:
    corpus = job.test.open()
    loaded = Translator.load(folder, job.config.training.device)
    options = search_options(folder, job)
    translator = Timed(loaded.model, loaded.tokenizers, options, loaded.longest, loaded.shortlist)
    reads = translator.model.reads
    pairs = list(for_model(corpus, reads))
    if reads:
        translator.translate([pair.source for pair in pairs[:BATCH]], batch_size=BATCH)  # what is slow only once
        translator.seconds = 0.0
    report = evaluate(translator, pairs, data=corpus.name, options=options, batch_size=BATCH)
    record = report.to_json() | {"seconds": translator.seconds, "translations": list(report.translations)}
    record["looks"] = _looks(translator, job.sentences) if reads else []
    return record | {
        "parameters": learned(translator.model),
        "vocabulary": f"{translator.tokenizers.target.kind}, {translator.tokenizers.target.size:,} entries",
        "tokenizers": translator.tokenizers.fingerprint,
    }


def read(folder: Path, job: Job) -> Evaluation | None:
    """Return what an earlier scoring of the same weights on the same terms has found; None where there was none."""
    try:
        record = json.loads((folder / FILE).read_bytes())
        if record["format"] != FORMAT or record["key"] != _key(folder, job):
            return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Evaluation(
        parameters=record["parameters"],
        vocabulary=record["vocabulary"],
        tokenizers=record["tokenizers"],
        scores=record["scores"],
        by_length=tuple(record["by_length"]),
        search=record["search"],
        sentences=record["sentences"],
        seconds=record["seconds"],
        translations=tuple(record["translations"]),
        looks=tuple(
            Look(
                one["source"],
                one["text"],
                _trace(one["trace"]) if one["trace"] else None,
                one["about"],
            )
            for one in record["looks"]
        ),
        unit=record.get("unit", "sentences"),
    )


def scored(folder: Path) -> str:
    """Return the digest of the weights that were scored last, in any format; nothing where none were."""
    try:
        return str(json.loads((folder / FILE).read_bytes())["key"]["weights"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _trace(record: dict[str, Any]) -> AttentionTrace | ImageTrace:
    return ImageTrace.from_json(record) if record.get("format") == OVER_IMAGE else AttentionTrace.from_json(record)


def search_options(folder: Path, job: Job) -> DecodingConfig:
    """Return how to search: as the job's settings say, with as long an output as the training corpus called for."""
    return as_trained(job.config, open_folder(folder))


def as_trained(wanted: Config, trained: Config) -> DecodingConfig:
    """Return how a model is to search that has been trained: by what is wanted now, and as long as its corpus asks."""
    own, then = wanted.decoding, trained.decoding
    ratio = max(own.max_ratio, then.max_ratio)
    if wanted.model.image is None or not own.max_length:
        return replace(own, max_ratio=ratio)
    return replace(own, max_ratio=ratio, max_length=max(own.max_length, then.max_length))


def _key(folder: Path, job: Job) -> dict[str, Any]:
    """Return all that decides what a scoring finds."""
    return {
        "weights": digest(folder / WEIGHTS),
        "test": (
            job.test.open() if job.config.model.image is None else job.test.open_pictures(open_folder(folder))
        ).identity(),
        "decoding": asdict(search_options(folder, job)),
        "sentences": list(job.sentences),
        "sacrebleu": importlib.metadata.version("sacrebleu"),
    }


def _looks(translator: Translator, sentences: Sequence[str]) -> list[dict[str, Any]]:
    looks = []
    for source, best in zip(sentences, translator.translate(list(sentences)), strict=True):
        trace, about = best.attention, f"score {best.score:.2f}"
        if trace.weights.shape[0]:
            about = trace.caption()
            trace = replace(trace, weights=trace.look()[None, None], candidates=())
        plain = trace.to_json() if trace.weights.shape[0] else None
        looks.append({"source": source, "text": best.text, "trace": plain, "about": about})
    return looks
