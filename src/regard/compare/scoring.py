"""Score a trained model on the common test corpus, once: the result is kept as `evaluation.json` in its folder."""

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
    """A model's output for one of the examples shown."""

    source: str
    text: str
    trace: AttentionTrace | ImageTrace | None
    """The attention, averaged over layers and heads; None if it cannot be shown."""
    about: str = ""


@dataclass(frozen=True)
class Evaluation:
    """The evaluation of a trained model on the test corpus."""

    parameters: int
    vocabulary: str
    """A description of the target vocabulary; losses are comparable only if it is the same."""
    tokenizers: str
    """A checksum of the tokenizers."""
    scores: dict[str, dict[str, Any]]
    """The fields of `regard.evaluation.report.Score` by name; a language model has only its perplexity."""
    by_length: tuple[dict[str, Any], ...]
    search: str
    sentences: int
    seconds: float
    """Time taken by decoding; 0 if not measured."""
    translations: tuple[str, ...]
    looks: tuple[Example, ...]
    unit: str = "sentences"
    """The unit of `sentences`."""

    @property
    def main(self) -> str:
        """The name of the score that variants are compared by: BLEU, or the first score of a picture task."""
        return next(iter(self.scores), "") if self.unit != "sentences" else "BLEU"

    @property
    def of_all(self) -> dict[str, dict[str, Any]]:
        """The scores over the whole corpus, without those of a class or another part."""
        return {name: score for name, score in self.scores.items() if not score.get("partial")}

    def value(self, name: str) -> float | None:
        """Return the value of a score; None if there is no such score."""
        found = self.scores.get(name, {}).get("value")
        return None if found is None else float(found)

    @property
    def loss(self) -> float | None:
        """Return the loss per token in nats: the logarithm of the perplexity."""
        found = self.value("perplexity")
        return None if found is None else math.log(found)

    @property
    def sentences_per_second(self) -> float | None:
        """Return the decoding speed in sentences or pictures per second."""
        return self.sentences / self.seconds if self.seconds else None


@dataclass(frozen=True)
class TaskScores:
    """A task's evaluation of a model on the test corpus."""

    report: Report
    seconds: float
    """Inference time, without preparing the input; 0 if not measured."""
    model: nn.Module
    vocabulary: str
    """A description of the vocabulary, such as `bpe, 2,000 entries`."""
    known_by: str
    """An identifier of the vocabulary, to tell whether two models share it."""
    examples: list[Example]


def score(folder: Path, job: Job) -> Evaluation:
    """Score a model, or return its stored evaluation."""
    known = read(folder, job)
    if known is not None:
        return known
    tested: TaskScores = task_of(job.config.model).compare(folder, job, search_options(folder, job))
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
    """Return the stored evaluation of the same weights under the same conditions; None if there is none."""
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
    """Return the digest of the weights that were scored last, in any format version; empty if none were."""
    try:
        return str(json.loads((folder / FILE).read_bytes())["key"]["weights"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _trace(record: dict[str, Any]) -> AttentionTrace | ImageTrace:
    return ImageTrace.from_json(record) if record.get("format") == OVER_IMAGE else AttentionTrace.from_json(record)


def search_options(folder: Path, job: Job) -> DecodingConfig:
    """Return a job's decoding settings, with the maximum length that its training corpus needed."""
    return as_trained(job.config, open_folder(folder))


def as_trained(wanted: Config, trained: Config) -> DecodingConfig:
    """Return the wanted decoding settings, with the maximum length raised as in training."""
    own, then = wanted.decoding, trained.decoding
    ratio = max(own.max_ratio, then.max_ratio)
    if wanted.model.image is None or not own.max_length:
        return replace(own, max_ratio=ratio)
    return replace(own, max_ratio=ratio, max_length=max(own.max_length, then.max_length))


def _key(folder: Path, job: Job) -> dict[str, Any]:
    """Return everything that determines the result of an evaluation, as a cache key."""
    return {
        "weights": digest(folder / WEIGHTS),
        "test": task_of(job.config.model).open_test(job.test, open_folder(folder)).identity(),
        "decoding": asdict(search_options(folder, job)),
        "sentences": list(job.sentences),
        "sacrebleu": importlib.metadata.version("sacrebleu"),
    }
