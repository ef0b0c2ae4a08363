"""`regard evaluate`."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    from regard.evaluation.alignment import Reading
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
        str, typer.Option(metavar="PART", help="Which part of an embedded corpus: train, valid or test.")
    ] = "test",
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
    from regard.data.regions import counted
    from regard.decoding.translator import Translator
    from regard.evaluation.evaluate import evaluate as run
    from regard.models.store import open_folder
    from regard.viz.curves import by_length
    from regard.viz.output import check_suffix, write_output
    from regard.viz.trace import PICTURES

    if plot is not None:
        check_suffix(plot, PICTURES)
    for path in (plot, translations):
        if path is not None:
            check_target(path)
    reading = alignment_reading(layer, head, shift, posterior, reverse_model, symmetrise)
    if open_folder(model).model.image is not None:
        for name, given in (
            ("--with", with_),
            ("--to", to),
            ("--plot", plot),
            ("--reverse-model", reverse_model),
            ("--posterior", posterior),
        ):
            if given:
                raise ConfigError(f"{name} is for models that read texts, and {model} holds one that reads pictures.")
        report = _of_pictures(model, parts, split, beam, batch, set_, reading, device)
        print(json.dumps(report.to_json(), ensure_ascii=False, indent=2) if as_json else report, flush=True)
        if translations is not None:
            write_output(translations, "".join(f"{text}\n" for text in report.translations).encode())
            typer.echo(f"Wrote {translations}", err=True)
        return
    corpus = open_corpus(parts, split)
    translator = Translator.load([model, *(with_ or [])], device)
    if not translator.model.reads and (plot is not None or translations is not None):
        raise ConfigError("--plot and --translations are of translations, and a language model makes none.")
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
    print(json.dumps(report.to_json(), ensure_ascii=False, indent=2) if as_json else report, flush=True)
    if translations is not None:
        write_output(translations, "".join(" ".join(text.splitlines()) + "\n" for text in report.translations).encode())
        typer.echo(f"Wrote {translations}", err=True)
    if plot is not None:
        series = {model.resolve().name: [(bin.label, bin.bleu) for bin in report.by_length if bin.bleu is not None]}
        for note in by_length(series, plot, title=f"{corpus.name}, {counted(report.sentences, 'sentence')}"):
            typer.echo(f"regard: {note}", err=True)
        typer.echo(f"Wrote {plot}", err=True)


def _of_pictures(
    model: Path,
    parts: Sequence[str],
    split: str,
    beam: int | None,
    batch: int | None,
    changes: list[str] | None,
    reading: "Reading | None",
    device: str,
) -> "Report":
    from regard.data.pictures import needed_by, open_pictures
    from regard.evaluation.pictured import evaluate_pictures
    from regard.models.store import open_folder

    config = open_folder(model)
    assert config.model.image is not None
    size, plain = max(config.model.image.size, 1), config.data.plain_captions
    pictures = open_pictures(parts, split, pixels=size, plain=plain, needed=needed_by(config.model))
    options = search_options(config.decoding, changes)
    options = options if beam is None else replace(options, beam=beam)
    return evaluate_pictures(model, pictures, options=options, batch_size=batch, reading=reading, device=device)
