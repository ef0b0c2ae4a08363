"""Run one job of a comparison: train or resume the model, score it, and write its record.

`python -m regard.compare.worker FOLDER NAME` runs it as a worker process. Exit codes: 0 finished, 1 failed, 130
interrupted.
"""

import json
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path

from regard.atomic_files import digest
from regard.compare.scoring import as_trained, score
from regard.compare.training_run import FAILED, FINISHED, INTERRUPTED, TRAINED, Job, RunFiles, RunRecord, contents_of
from regard.compare.variants import VALIDATIONS
from regard.config import Config
from regard.config_io import read_toml
from regard.data.configured_corpora import open_data
from regard.data.pictures import EMBEDDED
from regard.doctor import examine
from regard.errors import RegardError, TrainingError
from regard.models.model_folder import CONFIG, WEIGHTS
from regard.training import train_model, trainer
from regard.training.progress import Reporter, Silent, duration
from regard.training.time_budget import FOREVER
from regard.viz.metric_curves import read_metrics

TRIAL, WINDOW = 40, 10
"""Steps of the trial that measures the speed, and steps per measurement; the first measurement is discarded."""

Say = Callable[[str], None]


def work(place: RunFiles, say: Say, reporter: Reporter | None = None) -> RunRecord:
    """Do what is left of a recorded job. Errors are written to the record, not raised."""
    record = place.read()
    assert record is not None
    try:
        if record.result is None:
            record = _train(place, record, say, reporter)
        if record.state != INTERRUPTED:
            say(f"Scoring {record.job.name}")
            score(place.model, record.job)
            record = replace(record, state=FINISHED, reason="")
    except Exception as error:
        if not isinstance(error, RegardError):
            place.log.parent.mkdir(parents=True, exist_ok=True)
            with open(place.log, "a", encoding="utf-8") as log:
                traceback.print_exc(file=log)
        latest = place.read() or record
        record = replace(latest, state=FAILED, reason=reason_of(error))
        say(f"{record.job.name} failed: {record.reason}")
    return place.write(record)


def reason_of(error: Exception) -> str:
    """Return an error's reason in one line."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        return "out of memory: use a smaller model or training.batch_tokens"
    said = " ".join(str(error).split())
    return said if isinstance(error, RegardError) else f"{type(error).__name__}: {said}".strip(": ")


def _train(place: RunFiles, record: RunRecord, say: Say, reporter: Reporter | None) -> RunRecord:
    config = record.job.config
    if record.job.minutes:
        if not record.steps:
            steps = steps_in(record.job, place.trial, say)
            record = place.write(replace(record, steps=steps))
        config = with_steps(config, record.steps)
    begun = (place.model / CONFIG).is_file()
    if begun:  # keep the decoding lengths that were fitted to the corpus when the run started
        config = replace(config, decoding=as_trained(config, read_toml(place.model / CONFIG)))
    else:
        record = place.write(replace(record, contents=contents_of(config.data)))
    place.model.parent.mkdir(parents=True, exist_ok=True)
    result = train_model.train(config, place.model, resume=begun, reporter=reporter, go_on="")
    if result.end == trainer.INTERRUPTED:
        return replace(record, state=INTERRUPTED)
    plain = {name: value for name, value in asdict(result).items() if name != "folder"}
    machine = {finding.what: finding.found for finding in examine()}
    weights = digest(place.model / WEIGHTS)
    return place.write(replace(record, state=TRAINED, result=plain, machine=machine, weights=weights))


def with_steps(config: Config, steps: int) -> Config:
    """Return the configuration with a budget of `steps`."""
    every = config.training.validate_every or max(1, steps // VALIDATIONS)
    settings = replace(config.training, steps=steps, epochs=FOREVER, validate_every=every)
    return replace(config, training=settings)


def steps_in(job: Job, folder: Path, say: Say) -> int:
    """Return how many steps fit in a job's minutes, measured by a short trial run that is then deleted.

    A budget in steps is needed by a schedule that decays to zero, and stays the same in a resumed run.
    """
    say(f"Measuring how many steps of {job.name} fit in {job.minutes:g} min")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        settings = replace(job.config.training, log_every=WINDOW, save_every=0, average="none")
        config = with_steps(replace(job.config, training=settings), TRIAL)
        valid = _two_pairs(config, folder / "valid.jsonl")
        config = replace(config, data=replace(config.data, valid=valid, held_out=0))
        config = replace(config, training=replace(config.training, validate_every=TRIAL))
        train_model.train(config, folder / "model", reporter=Silent())
        records = [one for one in read_metrics(folder / "model" / trainer.METRICS) if "steps_per_second" in one]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    speeds = [float(str(one["steps_per_second"])) for one in records[1:]]
    if not speeds or not min(speeds) > 0:
        raise TrainingError(
            f"The speed of {job.name} could not be measured: give a budget of steps instead of minutes."
        )
    mean = len(speeds) / sum(1 / speed for speed in speeds)  # harmonic mean: all windows have the same number of steps
    steps = max(1, round(job.minutes * 60 * mean))
    say(f"{job.name}: {mean:.3g} steps/s, so {steps:,} steps in {duration(job.minutes * 60)}")
    return steps


def _two_pairs(config: Config, path: Path) -> tuple[str, ...]:
    """Return a validation corpus of two pairs, if possible: the trial measures training speed, not validation."""
    if config.model.image is not None:
        return (f"{EMBEDDED}:valid:2",) if config.data.train[0].startswith(EMBEDDED) else config.data.valid
    corpus = None if config.data.tagged else open_data(config.data, "valid", config.seed)
    if corpus is None or not corpus.paired:
        return config.data.valid
    lines = [
        json.dumps({"source": pair.source, "target": pair.target}, ensure_ascii=False) for pair in islice(corpus, 2)
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return (str(path),)


def main(folder: str, name: str) -> int:
    """Run the job and return the exit code."""
    try:
        record = work(RunFiles(Path(folder), name), lambda text: print(text, file=sys.stderr, flush=True))
    except KeyboardInterrupt:
        return 130
    return {FAILED: 1, INTERRUPTED: 130}.get(record.state, 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
