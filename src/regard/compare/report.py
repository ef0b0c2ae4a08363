"""Write the report of a comparison: report.md with images, report.html (self-contained) and results.json."""

import datetime
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from regard import __version__
from regard.compare.attention_samples import show_looks
from regard.compare.report_document import Code, Document, Listing, Picture
from regard.compare.report_markdown import to_markdown
from regard.compare.report_page import to_html
from regard.compare.report_tables import (
    budget_of,
    length_table,
    main_table,
    run_table,
    score_table,
    settings_table,
    why_failed,
)
from regard.compare.results import Findings
from regard.compare.run_statistics import Row, to_json
from regard.compare.significance import LEVEL, SAMPLES
from regard.doctor import examine
from regard.errors import DisplayError
from regard.viz.metric_curves import by_length, learning_curves
from regard.viz.picture_files import write_output
from regard.viz.scatter_plot import Dot, scatter

FORMAT = "regard-comparison-1"
MARKDOWN, PAGE, RESULTS, IMAGES = "report.md", "report.html", "results.json", "images"

_MACHINE = ("CPU", "GPU", "GPU 0", "torch", "Python")
"""The facts about the machine that the report shows; results.json has all."""


_OF_TEXTS = (
    "Loss: cross-entropy per target token of the test corpus, in nats. tokens/s: median training speed in target "
    "tokens, without validation. AER: alignment error rate of the source word with the most attention, where there are "
    "gold alignments. sent/s: sentences translated per second. The best value of a column is in bold."
)
_OF_PICTURES = (
    "Scores are those of regard evaluate over all {0}; All scores explains them and adds those of parts of the corpus. "
    "Training speed is the median, without validation. {0}/s: test {0} processed per second. The best value of a "
    "column is in bold."
)


def write_report(folder: Path, findings: Findings) -> list[str]:
    """Write all files of the report; return notes for the user."""
    images = folder / IMAGES
    images.mkdir(parents=True, exist_ok=True)
    for old in (*images.glob("*.png"), *images.glob("*.svg")):
        old.unlink()
    pictures = _Pictures(images)
    count = len(findings.rows)
    document = Document(f"{count} variant{'' if count == 1 else 's'} on {_data(findings)}")
    _head(document, findings)
    _plots(document, findings, pictures)
    _lengths(document, findings)
    show_looks(document, findings, pictures.draw)
    _details(document, findings)
    if pictures.missing:
        document.blocks.insert(1, document.blocks.pop())
    notes = [*warnings_of(findings), *pictures.notes]
    write_output(folder / MARKDOWN, to_markdown(document, IMAGES).encode())
    write_output(folder / PAGE, to_html(document, images).encode(errors="backslashreplace"))
    content = json.dumps(results(findings, notes), ensure_ascii=False, indent=1, allow_nan=False)
    write_output(folder / RESULTS, content.encode(errors="backslashreplace") + b"\n")
    return notes


class _Pictures:
    """Draws the plots; without matplotlib there are none, and the report says so."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.notes: list[str] = []
        self.missing = False

    def draw(self, name: str, draw: Callable[[Path], list[str]], suffixes: Sequence[str] = (".png", ".svg")) -> bool:
        """Draw a plot in all file formats; return whether it could be drawn."""
        try:
            for suffix in suffixes:
                for note in draw(self._folder / f"{name}{suffix}"):
                    if note not in self.notes:
                        self.notes.append(note)
        except DisplayError as error:
            self.missing = self.missing or "matplotlib" in str(error)
            if self.missing and str(error) not in self.notes:
                self.notes.append(str(error))
            return False
        return True


def _head(document: Document, findings: Findings) -> None:
    what = "test" if findings.test.split == "test" else "validation"
    count = _sentences(findings)
    document.say(
        f"Each variant was trained on {_data(findings)} {budget_in_words(findings)}"
        + (f", and scored on {findings.test_name} ({count:,} {what} {_unit(findings)}). " if count else ". ")
        + _seeds(findings)
    )
    for warning in warnings_of(findings):
        document.say(warning)
    document.heading("Results")
    document.add(main_table(findings.rows))
    if findings.signature:
        document.say(*significance_in_words(findings), note=True)
        document.say(f"{findings.main}: ", Code(findings.signature), note=True)
    document.say(_OF_PICTURES.format(findings.unit) if findings.pictured else _OF_TEXTS, note=True)


def significance_in_words(findings: Findings) -> tuple[str | Code, ...]:
    """Return a note on ± and p."""
    name, main, unit = findings.baseline.variant, findings.main, _unit(findings)
    if not any(row.stat("p") for row in findings.rows):
        if len(findings.seeds) > 1:
            return ("± is the standard deviation over seeds.",)
        return (
            f"{main} ± half the width of its 95 % confidence interval, by bootstrap resampling of the {unit} "
            f"({SAMPLES:,} samples).",
        )
    if len(findings.seeds) > 1:
        return (
            f"± is the standard deviation over seeds. p: for how many seeds {main} differs significantly from that of ",
            Code(name),
            f" with the same seed (paired bootstrap resampling of the test {unit}, {SAMPLES:,} samples, p < {LEVEL:g}; "
            "not corrected for multiple comparisons).",
        )  # fmt: skip
    return (
        f"{main} ± half the width of its 95 % confidence interval. p: the probability of a larger difference from ",
        Code(name),
        f" if both were equally good, by paired bootstrap resampling of the {unit} ({SAMPLES:,} samples); * marks p < "
        f"{LEVEL:g} (not corrected for multiple comparisons). The test covers variation between test {unit}, not "
        "between seeds: for that, train with several seeds.",
    )  # fmt: skip


def warnings_of(findings: Findings) -> list[str]:
    """Return warnings about anything that makes the numbers hard to compare."""
    runs = [run for row in findings.rows for run in row.runs]
    said = [f"{row.variant}: {why_failed(row).rstrip('.')}." for row in findings.rows if row.failed]
    if findings.test.split != "test":
        said.append(
            "There was no test corpus: all variants are scored on the validation corpus, which also selected their "
            "best checkpoints, so the scores are somewhat too optimistic."
        )
    if len({budget_of(run) for run in runs}) > 1:
        said.append(
            "The variants had different budgets: steps, epochs, patience or tokens per batch differ (see the settings "
            "below)."
        )
    by_seed: dict[int, set[str]] = {}
    for run in runs:
        if run.evaluation is not None:
            by_seed.setdefault(run.record.job.config.seed, set()).add(run.evaluation.tokenizers)
    if any(len(found) > 1 for found in by_seed.values()):
        said.append("The variants do not have the same vocabulary, so their losses cannot be compared.")
    if len({json.dumps(run.record.machine, sort_keys=True) for run in runs if run.record.machine}) > 1:
        said.append("The variants were not all trained on the same machine, so their times cannot be compared.")
    if (most := max((run.record.at_once for run in runs), default=1)) > 1:
        said.append(f"Up to {most} runs were trained in parallel: each was slower than it would be alone.")
    if len(findings.rows) > 1 and not findings.baseline.finished:
        said.append(f"The baseline {findings.baseline.variant} did not finish, so nothing is compared with it.")
    elif findings.signature and findings.baseline.stat("main") is None:
        said.append(f"The baseline {findings.baseline.variant} does not translate, so nothing is compared with it.")
    return said


def _plots(document: Document, findings: Findings, pictures: _Pictures) -> None:
    rows = [row for row in findings.rows if row.finished]
    curves = {row.variant: [run.place.model / "metrics.jsonl" for run in row.finished] for row in findings.rows}
    found: list[Picture] = []
    if pictures.draw("learning", lambda path: learning_curves(curves, path)):
        how = "" if findings.pictured and not findings.signature else " (greedy search)"
        found.append(Picture("learning", f"Learning curves: validation scores{how} by training step."))
    lengths = {row.variant: [(name, bleu) for name, (_, bleu) in row.by_length().items()] for row in findings.rows}
    ordered = dict(sorted(((name, 0) for points in lengths.values() for name, _ in points), key=_first_word))
    if len(ordered) > 1 and pictures.draw("length", lambda path: by_length(lengths, path)):
        found.append(Picture("length", "BLEU by source length in words."))
    panels, ylabel, low = _speed(findings)
    if len(rows) > 1 and pictures.draw("speed", lambda path: scatter(panels, path, ylabel=ylabel, low_is_good=low)):
        found.append(Picture("speed", "Speed against quality: further right is faster, higher is better."))
    if found or pictures.missing:
        document.heading("Plots")
    if found:
        document.add(*found)
    if pictures.missing:
        document.say("There are no plots because matplotlib is missing: ", Code("pip install 'regard[plot]'"), ".")


def _first_word(item: tuple[str, int]) -> int:
    return int(item[0].partition("–")[0].rstrip("+"))


def _speed(findings: Findings) -> tuple[dict[str, list[Dot]], str, bool]:
    """Return the points of the speed plots for training and testing: the main score, or perplexity, against speed."""
    rows = findings.rows
    main = next((one.main for row in rows for run in row.finished if (one := run.evaluation)), "")
    measure, ylabel, low = ("main", main, False) if any(map(_main, rows)) else ("perplexity", "perplexity", True)
    panels: dict[str, list[Dot]] = {}
    pictured, unit = findings.pictured, next((run.unit for row in rows for run in row.finished), "")
    for xlabel, speed in (
        (f"training: {unit}/s" if pictured else "training: target tokens/s", "tokens_per_second"),
        (f"testing: {findings.unit}/s" if pictured else "translating: sentences/s", "sentences_per_second"),
    ):
        for number, row in enumerate(rows):
            x, y = row.stat(speed), row.stat(measure)
            if x is not None and y is not None:
                tested = row.finished[0].tested
                margin = y.spread if y.spread is not None else tested.interval if tested and measure == "main" else None
                panels.setdefault(xlabel, []).append(Dot(row.variant, x.mean, y.mean, margin or 0.0, number))
    return panels, ylabel, low


def _main(row: Row) -> bool:
    return row.stat("main") is not None


def _lengths(document: Document, findings: Findings) -> None:
    table = length_table(findings.rows)
    if table is not None:
        document.heading("BLEU by sentence length")
        document.add(table)


def _details(document: Document, findings: Findings) -> None:
    if len(findings.seeds) > 1:
        document.heading("All runs")
        document.add(run_table(findings.rows))
    if any(row.finished for row in findings.rows):
        document.heading("All scores")
        document.add(score_table(findings.rows))
        runs = [run.evaluation for row in findings.rows for run in row.finished if run.evaluation]
        if found := sorted({evaluation.search for evaluation in runs if evaluation.translations}):
            what = "Captions" if findings.pictured else "Translations"
            document.say(f"{what} were decoded with {'; or with '.join(found)}.", note=True)
    table = settings_table(findings.rows)
    if table is not None:
        document.heading("Settings that differ")
        document.add(table)
    document.heading("How to reproduce")
    machine = next((run.record.machine for row in findings.rows for run in row.runs if run.record.machine), None)
    lines = [f"{what}: {found}" for what, found in (machine or {}).items() if what in _MACHINE]
    document.say(f"regard {__version__}, seed {', '.join(map(str, findings.seeds))}. {'; '.join(lines)}.")
    if findings.command:
        document.add(Listing(findings.command))
    document.say(
        "All numbers are in ", Code(RESULTS), ", the models and their settings in ", Code("models"), "."
    )  # fmt: skip


def results(findings: Findings, notes: Sequence[str]) -> dict[str, Any]:
    """Return everything as plain dicts and lists; numbers that are not finite become null."""
    found: dict[str, Any] = _finite(
        {
            "format": FORMAT,
            "made": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "command": findings.command,
            "machine": {finding.what: finding.found for finding in examine()},
            "seeds": findings.seeds,
            "test": {
                "name": findings.test_name,
                "parts": list(findings.test.parts),
                "split": findings.test.split,
                "sentences": _sentences(findings),
            },
            "budget": budget_in_words(findings),
            "baseline": findings.baseline.variant,
            "significance": {
                "test": "paired bootstrap",
                "samples": SAMPLES,
                "level": LEVEL,
                "signature": findings.signature,
            },
            "sentences": list(findings.sentences),
            "notes": list(notes),
            "variants": [to_json(row) for row in findings.rows],
        }
    )
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _data(findings: Findings) -> str:
    trained = [row.runs[0].record.job.config.data for row in findings.rows]
    every = dict.fromkeys(" and ".join(data.train or data.mixed or data.tagged) for data in trained)
    return next(iter(every)) if len(every) == 1 else "their own data"


def _unit(findings: Findings) -> str:
    return findings.unit


def _sentences(findings: Findings) -> int:
    found = [run.evaluation.sentences for row in findings.rows for run in row.finished if run.evaluation]
    return found[0] if found else 0


def budget_in_words(findings: Findings) -> str:
    """Return the budget of each run in words: `for 2,000 steps of at most 4,000 tokens`."""
    every = {budget_of(run) for row in findings.rows for run in row.runs}
    if len(every) > 1:
        return "with its own budget"
    minutes, steps, epochs, patience, batch = every.pop()
    if minutes:
        length = f"for as many steps as fit in {minutes:g} minutes"
    elif steps:
        length = f"for {steps:,} steps"
    else:
        length = f"for {epochs:,} epochs"
    stop = f", with early stopping after {patience} validations without improvement" if patience else ""
    return f"{length} of at most {batch:,} tokens{stop}"


def _seeds(findings: Findings) -> str:
    seeds = findings.seeds
    if len(seeds) == 1:
        return f"Each was trained once, with seed {seeds[0]}."
    return f"Each was trained {len(seeds)} times, with seeds {', '.join(map(str, seeds))}; numbers are means."
