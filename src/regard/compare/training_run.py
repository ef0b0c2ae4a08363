"""One training of a comparison: what it is to do, and on disk what became of it.

A comparison's folder holds `runs/NAME.json`, this record, beside the model folder `models/NAME`.
"""

import contextlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.atomic_files import digest, write_atomically
from regard.compare.variants import HeldOut, Terms, Variant
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
    """The variant's name, and `-seed1` where the seeds were given."""
    variant: str
    config: Config
    minutes: float
    test: HeldOut
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Record:
    """What became of a job so far."""

    job: Job
    state: str = WAITING
    """waiting, trained (and not yet scored), finished, failed or interrupted."""
    reason: str = ""
    """Why it failed, in one line."""
    steps: int = 0
    """How many steps its minutes were found to be worth; 0 before that, and where no minutes were given."""
    result: Mapping[str, Any] | None = None
    """How the training ended: `regard.training.train_model.Result` without its folder."""
    machine: Mapping[str, str] | None = None
    """What it was trained on."""
    contents: Mapping[str, str] = field(default_factory=dict)
    """What the files held when the training began, as digests by name; none before that."""
    weights: str = ""
    """A digest of the weights that the training ended with; none before that."""
    at_once: int = 1
    """How many jobs were done at a time when it was trained: they slow each other down."""

    def to_json(self) -> dict[str, Any]:
        """Return plain dicts and lists."""
        plain = asdict(replace(self, job=replace(self.job, config=Config())))
        plain["job"]["config"] = to_dict(self.job.config)
        return {"format": FORMAT, **plain}


@dataclass(frozen=True)
class Place:
    """Where the parts of one job are."""

    folder: Path
    """The comparison's."""
    name: str

    @property
    def model(self) -> Path:
        """The model folder."""
        return self.folder / MODELS / self.name

    @property
    def file(self) -> Path:
        """The record."""
        return self.folder / RUNS / f"{self.name}.json"

    @property
    def log(self) -> Path:
        """What the process said, or the traceback it ended with."""
        return self.folder / LOGS / f"{self.name}.log"

    @property
    def trial(self) -> Path:
        """A model folder that is thrown away."""
        return self.folder / MODELS / f".trial-{self.name}"

    def write(self, record: Record) -> Record:
        """Put down what became of the job."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(self.file, json.dumps(record.to_json(), ensure_ascii=False, indent=1).encode() + b"\n")
        return record

    def read(self) -> Record | None:
        """Read the record; None where there is none."""
        try:
            plain = json.loads(self.file.read_bytes())
            if plain.pop("format") != FORMAT:
                raise ValueError
            job = plain.pop("job")
            test = HeldOut(tuple(job["test"]["parts"]), job["test"]["split"], job["test"].get("tagged", False))
            config = from_dict(Config, job["config"])
            made = Job(job["name"], job["variant"], config, job["minutes"], test, tuple(job["sentences"]))
            return Record(job=made, **plain)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            raise TrainingError(
                f"{self.file} cannot be read: it is no record of a comparison, or one of another release. "
                f"Remove it, and {self.model}, to train anew."
            ) from None


def make_jobs(variants: Sequence[Variant], terms: Terms, test: HeldOut, sentences: tuple[str, ...]) -> list[Job]:
    """Give every variant every seed; those of one seed stand together, so that all variants come to be seen soon."""
    if not terms.seeds:
        return [Job(one.name, one.name, one.config, terms.minutes, test, sentences) for one in variants]
    return [
        Job(f"{one.name}-seed{seed}", one.name, assign(one.config, "seed", seed), terms.minutes, test, sentences)
        for seed in terms.seeds
        for one in variants
    ]


def contents_of(data: DataConfig) -> dict[str, str]:
    """Return a digest of each file that is learnt from or validated by: its name may come to hold something else.

    Embedded corpora are no files, and of a folder of images only the captions are read here.
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
    """List the differences for which a training would have to be made anew, one `name: old → new` each.

    How translations are searched and where it runs change nothing in what was trained.
    """
    harmless = ("decoding.", "training.device:")
    found = [line for line in differences(old.config, new.config) if not line.startswith(harmless)]
    if old.minutes != new.minutes:
        found.append(f"minutes: {old.minutes:g} → {new.minutes:g}")
    return found


def rewritten(then: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """List the files that hold something else than what a training learnt from, one line each."""
    return [f"{name} holds something else now" for name in now if name in then and then[name] != now[name]]
