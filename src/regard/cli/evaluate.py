"""`regard evaluate`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Data, Device, Model, Source, Target, corpus_parts
from regard.errors import DataError


def evaluate(
    model: Model,
    data: Data = None,
    source: Source = None,
    target: Target = None,
    alignment: Annotated[
        str | None, typer.Option(metavar="FILE", help="Gold word alignments beside --source and --target (i-j, ipj).")
    ] = None,
    split: Annotated[str, typer.Option(help="Which part of an embedded corpus: train, valid or test.")] = "test",
    beam: Beam = None,
    batch: Annotated[int, typer.Option(help="Sentences searched at once.")] = 64,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw BLEU by source length (.png, .svg, .pdf).")
    ] = None,
    translations: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the translations there.")] = None,
    device: Device = "auto",
) -> None:
    """Score a model: BLEU, chrF, perplexity, exact match, error rates, BLEU by length, alignment error rate."""
    parts = corpus_parts(data, source, target)
    if not parts:
        raise DataError("There is nothing to score on: give --data, or --source and --target.")
    from regard.data.corpus import open_corpus
    from regard.decoding.translator import Translator
    from regard.evaluation.evaluate import evaluate as run
    from regard.viz.curves import by_length
    from regard.viz.output import write_output

    corpus = open_corpus((*parts, alignment) if alignment else parts, split)
    report = run(Translator.load(model, device), corpus, data=corpus.name, beam=beam, batch_size=batch)
    print(json.dumps(report.to_json(), ensure_ascii=False, indent=2) if as_json else report)
    if translations is not None:
        write_output(translations, "".join(f"{text}\n" for text in report.translations).encode())
    if plot is not None:
        series = {model.name: [(bin.label, bin.score) for bin in report.by_length]}
        for note in by_length(series, plot, title=f"{corpus.name}, {report.sentences:,} sentences"):
            typer.echo(f"regard: {note}", err=True)
