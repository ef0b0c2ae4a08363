"""Scoring a trained model on the common test corpus, once: `evaluation.json` in its folder keeps what was found."""

import importlib.metadata
import json
import math
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from regard.atomic_files import digest, write_atomically
from regard.compare.training_run import Job
from regard.config import Config, DecodingConfig
from regard.evaluation.report import Report
from regard.models.model_folder import WEIGHTS, learned, open_folder
from regard.task import task_of
from regard.viz.image_trace import FORMAT as OVER_IMAGE
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import AttentionTrace

FORMAT = "regard-evaluation-3"
FILE = "evaluation.json"


@dataclass(frozen=True)
class Example:
    """What a model made of one sentence or picture that is shown."""

    source: str
    text: str
    trace: AttentionTrace | ImageTrace | None
    """Where it looked, with layers and heads averaged to one; None where that cannot be shown."""
    about: str = ""


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
    looks: tuple[Example, ...]
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


@dataclass(frozen=True)
class Tested:
    """What a task found out about a model on the test corpus."""

    report: Report
    seconds: float
    """Time that the model took, without that of making its input ready; 0 where that cannot be told."""
    model: nn.Module
    vocabulary: str
    """How much it knows by number, in words."""
    known_by: str
    """What changes where its vocabulary is another."""
    examples: list[Example]


def score(folder: Path, job: Job) -> Evaluation:
    """Score a model, or return what was found when this was done before."""
    known = read(folder, job)
    if known is not None:
        return known
    tested: Tested = task_of(job.config.model).compare(folder, job, search_options(folder, job))
    record = tested.report.to_json() | {
        "unit": tested.report.unit,
        "seconds": tested.seconds,
        "translations": list(tested.report.translations),
        "looks": [_plain(example) for example in tested.examples],
        "parameters": learned(tested.model),
        "vocabulary": tested.vocabulary,
        "tokenizers": tested.known_by,
    }
    whole = {"format": FORMAT, "key": _key(folder, job), **record}
    write_atomically(folder / FILE, json.dumps(whole, ensure_ascii=False, allow_nan=False).encode() + b"\n")
    found = read(folder, job)
    assert found is not None
    return found


def _plain(example: Example) -> dict[str, Any]:
    trace = None if example.trace is None else example.trace.to_json()
    return {"source": example.source, "text": example.text, "trace": trace, "about": example.about}


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
            Example(
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
        "test": task_of(job.config.model).open_test(job.test, open_folder(folder)).identity(),
        "decoding": asdict(search_options(folder, job)),
        "sentences": list(job.sentences),
        "sacrebleu": importlib.metadata.version("sacrebleu"),
    }
