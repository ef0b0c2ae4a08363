"""`regard evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import regard
from regard.cli.attention_output import tell_written
from regard.cli.options import (
    Batch,
    Beam,
    Data,
    Device,
    Head,
    Layer,
    Model,
    Posterior,
    ReverseModel,
    Search,
    Shift,
    Source,
    Symmetrise,
    Target,
    To,
    With,
    check_at_least,
    check_target,
)
from regard.data.corpus_arguments import corpus_parts
from regard.errors import DataError
from regard.task_table import as_options, leave_out

if TYPE_CHECKING:
    from regard.evaluation.report import Report


def evaluate(
    model: Model,
    with_: With = None,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    alignment: Annotated[
        str | None,
        typer.Option(
            "--alignment",
            "--alignments",
            metavar="FILE",
            help="Gold word alignments of --source and --target (i-j, ipj; talp:FILE if counted from 1).",
        ),
    ] = None,
    layer: Layer = None,
    head: Head = None,
    shift: Shift = False,
    posterior: Posterior = False,
    reverse_model: ReverseModel = None,
    symmetrise: Symmetrise = None,
    group: Annotated[
        bool, typer.Option("--group", help="Score each distinct source once, with all its targets as references.")
    ] = False,
    to: To = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Part of an embedded corpus: train, valid or test.  [default: test]"),
    ] = None,
    beam: Beam = None,
    batch: Batch = None,
    set_: Search = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Plot BLEU by source length (.png, .svg, .pdf).")
    ] = None,
    translations: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the translations to FILE.")] = None,
    device: Device = "auto",
) -> None:
    """Score a model: BLEU, chrF, perplexity, error rates and more.

    Each score is printed with the settings it was computed with. Given gold alignments (in the corpus or from
    --alignment), the alignment error rate of the attention is scored too. Language models are scored by perplexity.

    Picture models: captions by BLEU-1 to BLEU-4 (on scenes also whether attention points at the named object),
    classifiers by accuracy, answers by accuracy per kind of question, detectors by average precision of boxes and
    overlap of masks.
    """
    check_at_least(1, beam=beam, batch=batch)
    if not corpus_parts(data, source, target, alignment=alignment):
        raise DataError("There is nothing to score on: give --data, or --source and --target.")
    from regard.models.model_folder import open_folder
    from regard.task import task_of
    from regard.viz.picture_files import check_suffix
    from regard.viz.trace import PICTURES

    if plot is not None:
        check_suffix(plot, PICTURES)
    for path in (plot, translations):
        if path is not None:
            check_target(path)
    task = task_of(open_folder(model).model)
    options: dict[str, Any] = {
        "ensemble": with_ or [],
        "to": to,
        "group": group,
        "layer": layer,
        "head": head,
        "shift": shift,
        "posterior": posterior,
        "reverse_model": reverse_model,
        "symmetrise": symmetrise,
        "beam": beam,
        "settings": set_ or [],
    }
    given = as_options(**options, plot=plot, translations=translations)
    leave_out(given, task.scoring_options, model, task.entry.what)
    report = regard.evaluate(
        model,
        data,
        source=source,
        target=target,
        alignment=alignment,
        split=split,
        batch=batch,
        device=device,
        **options,
    )
    _tell(report, as_json, translations, plot, model.resolve().name)


def _tell(
    report: "Report", as_json: bool, translations: Path | None, plot: Path | None = None, series: str = ""
) -> None:
    """Write the files, then print the report: a reader of our output such as `head` may close the pipe early."""
    from regard.data.region_features import counted
    from regard.viz.metric_curves import by_length
    from regard.viz.picture_files import write_output

    notes: dict[Path, list[str]] = {}
    try:
        if translations is not None:
            lines = (" ".join(text.splitlines()) + "\n" for text in report.translations)
            write_output(translations, "".join(lines).encode())
            notes[translations] = []
        if plot is not None:
            points = [(bin.label, bin.bleu) for bin in report.by_length if bin.bleu is not None]
            title = f"{report.data}, {counted(report.sentences, 'sentence')}"
            notes[plot] = by_length({series: points}, plot, title=title)
    finally:  # print the scores even if a file cannot be written
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=2) if as_json else report, flush=True)
    for path in notes:
        tell_written(path, notes[path])
