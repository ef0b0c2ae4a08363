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
        int, typer.Option(metavar="N", help="Print the N best translations of each line, with scores.")
    ] = 1,
    batch: Batch = None,
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Copy whatever it matches in a line unchanged into the translation.  [default: the model's setting]",
        ),
    ] = None,
    glossary: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="TSV of source terms and the target terms they must be translated to. Repeatable."
        ),
    ] = None,
    fast: Fast = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Print TSV training data: text, tab, translation (distillation).")
    ] = False,
    reverse: Annotated[
        bool,
        typer.Option("--reverse", help="With --pairs: print the translation first, as the source (back-translation)."),
    ] = False,
    tag: Annotated[
        str, typer.Option(metavar="WORD", help="With --pairs: prepend this to each source, such as '<bt>'.")
    ] = "",
    set_: Search = None,
    device: Device = "auto",
) -> None:
    """Translate stdin to stdout, line by line.

    Output line i is the translation of input line i; empty lines stay empty. With --n-best, each output line is the
    number of the input line, the score and the translation, separated by tabs. A language model continues each line
    instead, including empty ones. With --pairs, the output is a corpus: pairs with an empty side are dropped and
    counted, and with --n-best each input line gives several pairs.
    """
    check_at_least(1, beam=beam, n_best=n_best, batch=batch)
    if not pairs and (reverse or tag):
        raise ConfigError(f"{'--reverse' if reverse else '--tag'} is for --pairs: give both, or leave it out.")
    if model.is_file():
        raise ModelError(
            f"{model} is a file: give a model folder, and the texts on stdin (regard translate MODEL < {model})."
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
        typer.echo(f"Type texts to {what}, one per line; Ctrl-D ends.", err=True)
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
