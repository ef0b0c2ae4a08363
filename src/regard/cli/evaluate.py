"""`regard evaluate`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.attention_output import tell_written
from regard.cli.data import check_split
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
    alignment_reading,
    check_at_least,
    check_target,
    corpus_parts,
    leave_out,
)
from regard.errors import DataError

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
            help="Gold word alignments beside --source and --target (i-j, ipj; talp:FILE if counted from 1).",
        ),
    ] = None,
    layer: Layer = None,
    head: Head = None,
    shift: Shift = False,
    posterior: Posterior = False,
    reverse_model: ReverseModel = None,
    symmetrise: Symmetrise = None,
    group: Annotated[
        bool, typer.Option("--group", help="Score each source once, against all targets it has in the corpus.")
    ] = False,
    to: To = None,
    split: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Which part of an embedded corpus: train, valid or test.  [default: test]"),
    ] = None,
    beam: Beam = None,
    batch: Batch = None,
    set_: Search = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw BLEU by source length (.png, .svg, .pdf).")
    ] = None,
    translations: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the translations there.")] = None,
    device: Device = "auto",
) -> None:
    """Score a model: BLEU, chrF, perplexity, error rates and more.

    Of a model that reads pictures it is the captions (BLEU of 1 to 4 words, on scenes also whether it looked at what
    it wrote of), the classes (accuracy), the answers (accuracy of each kind of question) or what was found (average
    precision of boxes, overlap of masks) that are scored.

    Every number is printed with what made it. With gold alignments (in the corpus, or by --alignment), the attention
    is scored too. A language model has a perplexity alone.
    """
    check_at_least(1, beam=beam, batch=batch)
    parts = corpus_parts(data, source, target, alignment=alignment)
    if not parts:
        raise DataError("There is nothing to score on: give --data, or --source and --target.")
    from regard.models.model_folder import open_folder
    from regard.task import EvaluationRequest, task_of
    from regard.viz.picture_files import check_suffix
    from regard.viz.trace import PICTURES

    if plot is not None:
        check_suffix(plot, PICTURES)
    for path in (plot, translations):
        if path is not None:
            check_target(path)
    reading = alignment_reading(layer, head, shift, posterior, reverse_model, symmetrise)
    task = task_of(open_folder(model).model)
    given = {
        "--with": with_,
        "--to": to,
        "--group": group,
        "--layer": layer is not None,
        "--head": head is not None,
        "--shift": shift,
        "--posterior": posterior,
        "--reverse-model": reverse_model,
        "--beam": beam,
        "--set": set_,
        "--plot": plot,
        "--translations": translations,
    }
    leave_out(given, task.scoring_options, model, task.entry.what)
    check_split(split, parts)
    asked = EvaluationRequest(
        parts,
        split or "test",
        device,
        beam=beam,
        batch_size=batch,
        changes=set_ or [],
        reading=reading,
        ensemble=with_ or [],
        to=to,
        group=group,
        reverse_model=reverse_model,
    )
    _tell(task.evaluate(model, asked), as_json, translations, plot, model.resolve().name)


def _tell(
    report: "Report", as_json: bool, translations: Path | None, plot: Path | None = None, series: str = ""
) -> None:
    """Write files, then print: whoever reads what is printed may have seen enough after a line."""
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
    finally:  # a file that cannot be written costs no score
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=2) if as_json else report, flush=True)
    for path in notes:
        tell_written(path, notes[path])
