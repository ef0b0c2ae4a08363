"""`regard evaluate`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
    search_options,
)
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.evaluation.alignment_error_rate import Reading
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
    from regard.data.corpus import for_model, open_corpus
    from regard.decoding.translator import Translator
    from regard.evaluation.evaluate import evaluate as run
    from regard.models.model_folder import open_folder
    from regard.viz.picture_files import check_suffix
    from regard.viz.trace import PICTURES

    if plot is not None:
        check_suffix(plot, PICTURES)
    for path in (plot, translations):
        if path is not None:
            check_target(path)
    reading = alignment_reading(layer, head, shift, posterior, reverse_model, symmetrise)
    config = open_folder(model).model
    if config.image is not None:
        for name, given in (
            ("--with", with_),
            ("--to", to),
            ("--plot", plot),
            ("--reverse-model", reverse_model),
            ("--posterior", posterior),
            ("--group", group),
        ):
            if given:
                raise ConfigError(f"{name} is for models that read texts, and {model} holds one that reads pictures.")
        _check_task(
            model,
            config.task,
            {
                "--layer": layer is not None,
                "--head": head is not None,
                "--shift": shift,
                "--beam": beam,
                "--set": set_,
                "--translations": translations,
            },
        )
        _tell(_of_pictures(model, parts, split, beam, batch, set_, reading, device), as_json, translations)
        return
    corpus = open_corpus(parts, split or "test")
    check_split(split, parts)
    translator = Translator.load([model, *(with_ or [])], device)
    if not translator.model.reads:
        mixes = with_ and all(change.startswith("decoding.ensemble=") for change in set_ or [])
        searched = {"--group": group, "--beam": beam, "--set": set_ and not mixes}
        files = {"--plot": plot, "--translations": translations}
        _leave_out({**searched, **files}, f"{model} holds a language model, which makes no translations")
    translator.options = options = search_options(translator.options, set_)
    pairs = for_model(corpus, translator.model.reads)
    reverse = None if reverse_model is None else Translator.load(reverse_model, device)
    report = run(
        translator,
        pairs,
        data=corpus.name,
        beam=beam,
        options=options,
        batch_size=batch,
        to=to,
        group=group,
        reading=reading,
        reverse=reverse,
    )
    _tell(report, as_json, translations, plot, model.resolve().name)


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


def _check_task(model: Path, task: str, options: Mapping[str, object]) -> None:
    """Refuse options that say nothing of how a model that reads pictures is scored."""
    from regard.vision.build import ANSWER, CLASSIFY, DETECT

    alone = "which searches nothing, writes nothing and is not scored by where it looks"
    unused = {
        ANSWER: (("--shift", "--beam", "--set"), "a model that answers questions, which writes nothing step by step"),
        CLASSIFY: (options, f"a classifier, {alone}"),
        DETECT: (options, f"a detector, {alone}"),
    }
    names, what = unused.get(task, ((), ""))
    _leave_out({name: options[name] for name in names}, f"{model} holds {what}")


def _leave_out(options: Mapping[str, object], why: str) -> None:
    given = [name for name, value in options.items() if value]
    if given:
        *most, last = given
        raise ConfigError(f"Leave out {', '.join(most)}{' and ' if most else ''}{last}: {why}.")


def _of_pictures(
    model: Path,
    parts: Sequence[str],
    split: str | None,
    beam: int | None,
    batch: int | None,
    changes: list[str] | None,
    reading: "Reading | None",
    device: str,
) -> "Report":
    from regard.data.pictures import needed_by, open_pictures
    from regard.evaluation.pictured import evaluate_pictures
    from regard.models.model_folder import open_folder

    config = open_folder(model)
    assert config.model.image is not None
    size, plain = max(config.model.image.size, 1), config.data.plain_captions
    pictures = open_pictures(parts, split or "test", pixels=size, plain=plain, needed=needed_by(config.model))
    check_split(split, parts)
    options = search_options(config.decoding, changes)
    options = options if beam is None else replace(options, beam=beam)
    return evaluate_pictures(model, pictures, options=options, batch_size=batch, reading=reading, device=device)
