"""One training run of a comparison: the job, and the record of its state on disk.

A comparison's folder holds the record as `runs/NAME.json` and the model folder as `models/NAME`.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.atomic_files import digest, write_atomically
from regard.compare.variants import ComparisonTest, Terms, Variant
from regard.config import Config, DataConfig
from regard.config_io import assign, differences, from_dict, to_dict
from regard.data.alignments import told_counting
from regard.data.builtin_corpora import corpora
from regard.data.caption_files import captions_of
from regard.data.mixed_corpora import parse_mixed
from regard.data.pictures import EMBEDDED, are_pictures
from regard.data.tagged_corpora import parse_entry
from regard.errors import DataError, TrainingError

FORMAT = "regard-run-1"
RUNS, MODELS, LOGS = "runs", "models", "logs"

WAITING, TRAINED, FINISHED, FAILED, INTERRUPTED = "waiting", "trained", "finished", "failed", "interrupted"


@dataclass(frozen=True)
class Job:
    """One variant with one seed."""

    name: str
    """The variant's name, with `-seed1` added if seeds were given."""
    variant: str
    config: Config
    minutes: float
    test: ComparisonTest
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class RunRecord:
    """The state of a job."""

    job: Job
    state: str = WAITING
    """waiting, trained (and not yet scored), finished, failed or interrupted."""
    reason: str = ""
    """Why it failed, in one line."""
    steps: int = 0
    """The steps that fit in its minutes; 0 before they are measured, and for a budget not in minutes."""
    result: Mapping[str, Any] | None = None
    """The result of training: `regard.training.train_model.Result` without its folder."""
    machine: Mapping[str, str] | None = None
    """The machine it was trained on."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """Digests of the data files by name, taken when training starts; empty before."""
    weights: str = ""
    """A digest of the trained weights; empty before training ends."""
    at_once: int = 1
    """The number of jobs that ran in parallel when it was trained; they slow each other down."""

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        plain = asdict(replace(self, job=replace(self.job, config=Config())))
        plain["job"]["config"] = to_dict(self.job.config)
        return {"format": FORMAT, **plain}


@dataclass(frozen=True)
class RunFiles:
    """The files of one job."""

    folder: Path
    """The comparison's folder."""
    name: str

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder / MODELS / self.name

    @property
    def file(self) -> Path:
        """The record's file."""
        return self.folder / RUNS / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """The output of the worker process, or its traceback."""
        return self.folder / LOGS / f"{self.name}.log"

    @property
    def trial(self) -> Path:
        """A temporary model folder for the speed trial."""
        return self.folder / MODELS / f".trial-{self.name}"

    def write(self, record: RunRecord) -> RunRecord:
        """Write the record and return it."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps(record.to_json(), ensure_ascii=False, indent=1).encode() + b"\n")
        return record

    def read(self) -> RunRecord | None:
        """Read the record; None if there is none."""
        try:
            plain = json.loads(self.file.read_bytes())
            if plain.pop("format") != FORMAT:
                raise ValueError
            job = plain.pop("job")
            test = ComparisonTest(tuple(job["test"]["parts"]), job["test"]["split"], job["test"].get("tagged", False))
            config = from_dict(Config, job["config"])
            made = Job(job["name"], job["variant"], config, job["minutes"], test, tuple(job["sentences"]))
            return RunRecord(job=made, **plain)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise TrainingError(
                f"{self.file} cannot be read: it is not a record of a comparison, or was written by another release. "
                f"Delete it and {self.model} to train again."
            ) from None


def make_jobs(variants: Sequence[Variant], terms: Terms, test: ComparisonTest, sentences: tuple[str, ...]) -> list[Job]:
    """Return a job for each variant and seed, ordered by seed, so that all variants have a result early."""
    if not terms.seeds:
        return [Job(one.name, one.name, one.config, terms.minutes, test, sentences) for one in variants]
    return [
        Job(f"{one.name}-seed{seed}", one.name, assign(one.config, "seed", seed), terms.minutes, test, sentences)
        for seed in terms.seeds
        for one in variants
    ]


def contents_of(data: DataConfig) -> dict[str, str]:
    """Return a digest of each training and validation file, to notice later changes.

    Embedded corpora have no files; for a folder of images, only the captions file is covered.
    """
    several = [parse_entry(entry).parts for entry in (*data.tagged, *data.valid_tagged)]
    several += [parse_mixed(entry).parts for entry in data.mixed]
    files: dict[str, Path] = {}
    for parts in (data.train, data.valid, *several):
        if len(parts) == 1 and parts[0].partition(":")[0] in (*corpora, EMBEDDED):
            continue
        files |= {part: Path(told_counting(part).file) for part in parts}
        if len(parts) == 1 and are_pictures(parts):
            with contextlib.suppress(DataError, OSError):  # some have no captions
                beside = captions_of(Path(parts[0]))
                files[str(beside)] = beside
    return {name: digest(path) for name, path in files.items() if path.is_file()}


def changes(old: Job, new: Job) -> list[str]:
    """List the differences that need a new training run, each as `name: old → new`.

    Decoding settings and the device do not affect the trained model.
    """
    harmless = ("decoding.", "training.device:")
    found = [line for line in differences(old.config, new.config) if not line.startswith(harmless)]
    if old.minutes != new.minutes:
        found.append(f"minutes: {old.minutes:g} → {new.minutes:g}")
    return found


def rewritten(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the files that have changed since training, one line each."""
    return [f"{name} has changed since" for name in now if name in then and then[name] != now[name]]
