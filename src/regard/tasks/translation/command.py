"""`regard translate`."""

import sys
from typing import Annotated

import typer

from regard.cli.options import Batch, Beam, Device, Fast, Model, Search, To, With, check_at_least
from regard.config_io import search_options
from regard.errors import ConfigError, ModelError


def translate(
    model: Model,
    with_: With = None,
    to: To = None,
    beam: Beam = None,
    n_best: Annotated[
        int, typer.Option(metavar="N", help="Print this many translations of each line, with scores.")
    ] = 1,
    batch: Batch = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Whatever it matches in a line must stand in the translation as it is.  [default: the model's own]",
        ),
    ] = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="Lines of a term, a tab, and the term that must be written for it. Repeatable."
        ),
    ] = None,
    fast: Fast = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Print TSV to train on: the text, a tab, its translation (distillation).")
    ] = False,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="With --pairs: the translation first, as source (back-translation).")
    ] = False,
    tag: Annotated[
        str, typer.Option(metavar="WORD", help="With --pairs: put this before each source, such as '<bt>'.")
    ] = "",
    set_: Search = None,
    device: Device = "auto",
) -> None:
    """Translate stdin to stdout, line by line.

    Line i of the output is the translation of line i of the input; an empty line stays empty. With --n-best a line
    of the output is the input line's number, the score and the translation, separated by tabs. A language model
    continues each line instead, also an empty one. With --pairs the output is a corpus: lines that are empty, or have
    an empty translation, are left out and counted, and with --n-best a line gives several pairs.
    """
    check_at_least(1, beam=beam, n_best=n_best, batch=batch)
    if not pairs and (reverse or tag):
        raise ConfigError(f"{'--reverse' if reverse else '--tag'} is for --pairs: give both, or leave it out.")
    if model.is_file():
        raise ModelError(
            f"{model} is a file: give a model folder, and texts by standard input (regard translate MODEL < {model})."
        )
    from regard.decoding.line_reader import as_they_come
    from regard.decoding.terminology.glossary import read_glossary
    from regard.decoding.translated_pairs import PairRows
    from regard.decoding.translator import Translator

    made = PairRows(reverse, tag) if pairs else None
    terms = read_glossary(glossary) if glossary else None
    translator = Translator.load([model, *(with_ or [])], device)
    options = search_options(translator.faster() if fast else translator.options, set_)
    if made is not None and not translator.model.reads:
        raise ConfigError(f"{model} is a language model, which continues texts: --pairs needs one that translates.")
    if sys.stdin.isatty():
        what = "translate" if translator.model.reads else "continue"
        typer.echo(f"Type what to {what}, a text a line; Ctrl-D ends.", err=True)
    for lines in as_they_come(sys.stdin.buffer):
        if made is not None:
            made.check(lines)
        found = translator.stream(
            lines.texts,
            beam=beam,
            n_best=n_best,
            batch_size=batch,
            options=options,
            to=to,
            look=False,
            keep=keep,
            glossary=terms,
        )
        for number, best in enumerate(found):
            if made is not None:
                for row in made.rows(lines.texts[number], best):
                    print(row)
            elif n_best == 1:
                print(best.text)
            else:
                for other in (best, *best.n_best):
                    print(lines.first + number, f"{other.score:.4f}", other.text.replace("\t", " "), sep="\t")
        sys.stdout.flush()
    if made is not None and made.told():
        typer.echo(f"regard: {made.told()}", err=True)
