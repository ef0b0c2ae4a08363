"""Compare variants: train those that are not trained yet, score all, write the report. `regard compare` calls it."""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.atomic_files import digest
from regard.compare import scoring
from regard.compare.process_pool import StoppedError, run_apart, run_here
from regard.compare.report import IMAGES, MARKDOWN, PAGE, RESULTS, write_report
from regard.compare.report_document import plain
from regard.compare.report_tables import main_table
from regard.compare.results import Findings
from regard.compare.run_statistics import MEASURES, Row, Run
from regard.compare.scored_data import find_subject
from regard.compare.significance import BootstrapResult, paired_bootstrap
from regard.compare.training_run import (
    FINISHED,
    RUNS,
    WAITING,
    Job,
    RunFiles,
    RunRecord,
    changes,
    contents_of,
    make_jobs,
    rewritten,
)
from regard.compare.variants import Terms, Variant, check, find_test
from regard.errors import ConfigError, TrainingError
from regard.evaluation.bleu_chrf import References
from regard.models.model_folder import CONFIG, WEIGHTS
from regard.training.progress import Reporter, duration
from regard.training.resume import locked
from regard.training.setting_checks import check as check_config
from regard.training.trainer import METRICS, STATE
from regard.viz.metric_curves import read_metrics

FOREIGN = "it was not made by this comparison"
UNKNOWN = f"its folder has no {CONFIG}"
OTHERS = f"its {WEIGHTS} is gone, damaged or of another training"


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison."""

    folder: Path
    findings: Findings
    notes: tuple[str, ...]
    """Caveats for the reader of the numbers."""

    @property
    def rows(self) -> tuple[Row, ...]:
        """One for each variant, in their order."""
        return self.findings.rows

    @property
    def failed(self) -> list[Run]:
        """The runs that did not finish."""
        return [run for row in self.rows for run in row.failed]

    @property
    def markdown(self) -> Path:
        """The report as Markdown."""
        return self.folder / MARKDOWN

    @property
    def page(self) -> Path:
        """The report as a self-contained web page."""
        return self.folder / PAGE

    @property
    def results(self) -> Path:
        """All numbers, as JSON."""
        return self.folder / RESULTS

    def __getitem__(self, variant: str) -> Row:
        """Return a variant's numbers by its name."""
        for row in self.rows:
            if row.variant == variant:
                return row
        raise KeyError(f"{variant}: this comparison has {', '.join(row.variant for row in self.rows)}")

    def __str__(self) -> str:
        return plain(main_table(self.rows))


def compare(
    variants: Sequence[Variant],
    folder: Path,
    terms: Terms | None = None,
    *,
    jobs: int = 1,
    overwrite: bool = False,
    say: Callable[[str], None] | None = None,
    reporter: Reporter | None = None,
    command: str = "",
) -> Comparison:
    """Train each variant into `folder/models`, score all on the same test corpus and write the report.

    Calling it again continues: finished runs are kept, interrupted ones resumed, failed ones retried. If settings,
    files or weights have changed since, it raises a TrainingError that lists the changes; with `overwrite`, it trains
    those variants again instead. `jobs` worker processes train in parallel; with 0, all runs are trained in this
    process and reported to `reporter`. `say` receives progress messages.
    """
    terms, tell = terms or Terms(), say or _to_stderr
    check(variants, terms)
    test = find_test(variants, terms)
    for variant in variants:
        try:
            check_config(variant.config, resume=folder.is_dir())
        except ConfigError as error:
            raise ConfigError(f"Variant {variant.name!r}: {error}") from None
    subject = find_subject(test, variants[0].config, terms)
    made = make_jobs(variants, terms, test, subject.examples)
    _check_foreign(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        places = _claim(folder, made, overwrite)
        _work(places, jobs, tell, reporter)
        rows, signature = _collect(variants, terms, places, subject.references)
        findings = Findings(rows, test, subject.name, subject.examples, signature, subject.right, command)
        notes = write_report(folder, findings)
    return Comparison(folder, findings, tuple(notes))


def _check_foreign(folder: Path) -> None:
    """Raise a TrainingError for a folder in which the report would overwrite files of another origin."""
    if ((folder / CONFIG).exists() or (folder / WEIGHTS).exists()) and not (folder / RUNS).is_dir():
        raise TrainingError(f"{folder} is a model's folder: choose another for the comparison.")
    foreign = [name for name in (MARKDOWN, PAGE, RESULTS, IMAGES) if (folder / name).exists()]
    if foreign and not (folder / RUNS).is_dir():
        raise TrainingError(f"{folder} holds {', '.join(foreign)}, which no comparison made: choose another folder.")


def _claim(folder: Path, made: Sequence[Job], overwrite: bool) -> list[RunFiles]:
    """Write a record for every run and keep what is done already; raise a TrainingError for runs that differ."""
    places = [RunFiles(folder, job.name) for job in made]
    stale: dict[str, list[str]] = {}
    records: list[RunRecord] = []
    contents = {data: contents_of(data) for data in {job.config.data for job in made}}
    for place, job in zip(places, made, strict=True):
        old = place.read()
        if old is not None and _empty(place.model):
            _remove(place.model)
            old = None
        if wrong := _wrong(place, old, job, contents[job.config.data]):
            stale[job.name] = wrong
        kept = None if wrong else old
        records.append(RunRecord(job) if kept is None else replace(kept, job=job))
    if stale and not overwrite:
        raise TrainingError(
            f"{folder} holds runs that differ from those requested:\n"
            + "\n".join(f"  {name}: {line}" for name, lines in stale.items() for line in lines)
            + "\nRestore the former settings, retrain these with --overwrite, or choose another folder."
        )
    for place, record in zip(places, records, strict=True):
        if place.name in stale:
            _remove(place.model)
            place.log.unlink(missing_ok=True)
        place.write(record)
    return places


def _wrong(place: RunFiles, old: RunRecord | None, job: Job, contents: Mapping[str, str]) -> list[str]:
    """List the reasons why the content of a model folder is not what this job would produce."""
    if old is None:
        return [FOREIGN] if place.model.exists() else []
    found = changes(old.job, job)
    if not (place.model / CONFIG).is_file():
        return [*found, UNKNOWN]
    found += rewritten(old.contents, contents)
    weights = place.model / WEIGHTS
    known = old.weights or scoring.scored(place.model)  # older records have no digest
    if old.result is not None and not (weights.is_file() and known in ("", digest(weights))):
        found.append(OTHERS)
    return found


def _empty(model: Path) -> bool:
    """Return whether a model folder holds no model: it was deleted, or training was killed before it started."""
    return not any((model / name).exists() for name in (CONFIG, WEIGHTS, STATE))


def _remove(model: Path) -> None:
    """Delete a model folder; the lock fails if an orphaned worker is still training in it."""
    if model.is_symlink() or not model.is_dir():
        model.unlink(missing_ok=True)
        return
    with locked(model):
        shutil.rmtree(model)


def _work(places: Sequence[RunFiles], jobs: int, say: Callable[[str], None], reporter: Reporter | None) -> None:
    """Train and score the runs that are not finished."""
    left = []
    for place in places:
        record = place.read()
        assert record is not None
        if record.state == FINISHED and scoring.read(place.model, record.job) is not None:
            continue
        at_once = record.at_once if record.result is not None else min(max(jobs, 1), len(places))
        place.write(replace(record, state=WAITING, reason="", at_once=at_once))
        left.append(place)
    if done := len(places) - len(left):
        say(f"{done} of {len(places)} runs {'is' if done == 1 else 'are'} finished already.")

    def ended(record: RunRecord) -> None:
        if record.state == FINISHED and record.result is not None:
            evaluation = scoring.read(RunFiles(places[0].folder, record.job.name).model, record.job)
            value = evaluation.value(evaluation.main) if evaluation else None
            found = f", {evaluation.main} {value:.2f}" if evaluation and value is not None else ""
            say(f"{record.job.name}: {record.result['steps']:,} steps in {duration(record.result['seconds'])}{found}")

    try:
        if jobs == 0:
            run_here(left, say, ended, reporter)
        else:
            run_apart(left, jobs, say, ended)
    except StoppedError:
        say("Stopped. Run the same command again to continue.")
        raise KeyboardInterrupt from None


def _collect(
    variants: Sequence[Variant], terms: Terms, places: Sequence[RunFiles], references: References
) -> tuple[tuple[Row, ...], str]:
    """Read all results, and test every variant against the baseline."""
    baseline = terms.baseline or default_baseline(variants)
    runs: list[Run] = []
    for place in places:
        record = place.read()
        assert record is not None
        metrics = read_metrics(place.model / METRICS) if (place.model / METRICS).is_file() else []
        known = record.state == FINISHED and (place.model / WEIGHTS).is_file()
        runs.append(Run(place, record, metrics, scoring.read(place.model, record.job) if known else None))
    tested, signature = _test(runs, baseline, references)
    runs = [replace(run, tested=tested.get(run.place.name)) for run in runs]
    rows = tuple(
        Row(one.name, tuple(run for run in runs if run.record.job.variant == one.name), one.name == baseline)
        for one in variants
    )
    return rows, signature


def default_baseline(variants: Sequence[Variant]) -> str:
    """Return the first variant that is not a language model, which has no BLEU to compare with; else the first."""
    return next((one.name for one in variants if one.config.model.encoder.kind != "none"), variants[0].name)


def _test(runs: Sequence[Run], baseline: str, references: References) -> tuple[dict[str, BootstrapResult], str]:
    """Test every run against the baseline's run of the same seed; tasks without texts get only the difference."""
    tested: dict[str, BootstrapResult] = {}
    signature = ""
    if not references:
        return _apart(runs, baseline), signature
    for seed in dict.fromkeys(run.record.job.config.seed for run in runs):
        systems = {
            run.place.name: run.evaluation.translations
            for run in runs
            if run.record.job.config.seed == seed and run.evaluation is not None and run.evaluation.translations
        }
        against = next(
            (run.place.name for run in runs if run.place.name in systems and run.record.job.variant == baseline), ""
        )
        if against:
            found, signature = paired_bootstrap(against, systems, references)
            tested |= found
        else:  # each by itself, for its confidence interval
            for name, lines in systems.items():
                found, signature = paired_bootstrap(name, {name: lines}, references)
                tested |= found
    return tested, signature


def _apart(runs: Sequence[Run], baseline: str) -> dict[str, BootstrapResult]:
    """Return the main score of each run, and its difference from the baseline's run of the same seed."""
    values = {run.place.name: MEASURES["main"](run) for run in runs}
    against = {run.record.job.config.seed: run.place.name for run in runs if run.record.job.variant == baseline}
    found = {}
    for run in runs:
        name, other = run.place.name, against.get(run.record.job.config.seed, "")
        value, base = values[name], values.get(other)
        if value is not None:
            apart = None if base is None or other == name else value - base
            found[name] = BootstrapResult(value, None, apart, None)
    return found


def _to_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
