"""`regard translate`."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import Batch, Beam, Device, Fast, Search, To, With, check_at_least, check_target
from regard.errors import ConfigError, ModelError

if TYPE_CHECKING:
    from regard.batch.translate_options import TranslateOptions


def translate(
    model: Annotated[Path | None, typer.Argument(metavar="MODEL", help="The model folder.", show_default=False)] = None,
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
    field: Annotated[
        str | None, typer.Option(metavar="NAME", help="The input is JSONL: translate this field of each object.")
    ] = None,
    into: Annotated[
        str, typer.Option(metavar="NAME", help="With --field: the field that the translation is written to.")
    ] = "translation",
    input_: Annotated[
        str, typer.Option("--input", metavar="FILE", help="The input texts (also .gz, .xz); - is standard input.")
    ] = "-",
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The output file, written when complete; with --shard, a folder of shards."),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Translate part I of N of the input into the folder --output.")
    ] = None,
    join: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Translate nothing: join the shards of this folder."),
    ] = None,
    workers: Annotated[
        int,
        typer.Option(
            "--workers", "--devices", metavar="N", help="Worker processes, each with a GPU or a share of the cores."
        ),
    ] = 1,
    set_: Search = None,
    device: Device = "auto",
) -> None:
    """Translate stdin to stdout, line by line.

    Output line i is the translation of input line i; empty lines stay empty. With --n-best, each output line is the
    number of the input line, the score and the translation, separated by tabs. A language model continues each line
    instead, including empty ones. With --pairs, the output is a corpus: pairs with an empty side are dropped and
    counted, and with --n-best each input line gives several pairs. With --field, each line is a JSON object, printed
    with the translation as a further field.

    With --shard, each of N commands, on one machine or several, translates its part of a file to a file of its own. A
    command that was killed is run again; one that had finished does nothing. --join then prints the output of all parts
    exactly as one command would have.
    """
    check_at_least(1, beam=beam, n_best=n_best, batch=batch, workers=workers)
    if join is not None:
        if model is not None or shard is not None:
            raise ConfigError(f"--join translates nothing: leave out {'--shard' if model is None else 'MODEL'}.")
        return _join(join, output)
    if model is None:
        raise ModelError("Give the folder of a model (regard translate MODEL), or --join FOLDER.")
    if not pairs and (reverse or tag):
        raise ConfigError(f"{'--reverse' if reverse else '--tag'} is for --pairs: give both, or leave it out.")
    if field is None and into != "translation":
        raise ConfigError("--into is for --field: give both, or leave it out.")
    if field is not None and pairs:
        raise ConfigError("--field writes JSON objects and --pairs TSV: leave out one of them.")
    if model.is_file():
        raise ModelError(
            f"{model} is a file: give a model folder, and the texts on stdin (regard translate MODEL < {model})."
        )
    from regard.batch.translate_options import TranslateOptions

    options = TranslateOptions(
        models=(str(model), *map(str, with_ or [])),
        device=device,
        beam=beam,
        n_best=n_best,
        batch=batch,
        settings=tuple(set_ or ()),
        fast=fast,
        to=to,
        keep=keep,
        glossary=tuple(glossary or ()),
        pairs=pairs,
        reverse=reverse,
        tag=tag,
        field=field,
        into=into,
    )
    if shard is None:
        _translate(options, input_, output, workers)
        return None
    if output is None:
        raise ConfigError("--shard needs --output FOLDER, where each shard becomes a file.")
    from regard.batch.file_translation import translate_shard
    from regard.batch.shards import Shard

    translate_shard(options, input_, output, Shard.parse(shard), workers, _say)
    return None


def _translate(options: "TranslateOptions", given: str, output: Path | None, workers: int) -> None:
    """Translate all of an input."""
    from regard.atomic_files import file_anew
    from regard.batch.file_translation import all_blocks, to_bytes, to_standard_output, translator, write_all

    blocks = all_blocks(given)
    if output is not None:
        check_target(output)
    with translator(options, workers) as translating:
        if given == "-" and sys.stdin.isatty():
            what = "translate" if translating.reads else "continue"
            typer.echo(f"Type texts to {what}, one per line; Ctrl-D ends.", err=True)
        if output is None:
            left_out = write_all(translating, blocks, to_standard_output)
        else:
            with file_anew(output) as file:
                left_out = write_all(translating, blocks, to_bytes(file))
    _tell(left_out)


def _join(folder: Path, output: Path | None) -> None:
    from regard.batch.file_translation import join

    if output is not None:
        check_target(output)
    _tell(join(folder, output))


def _tell(left_out: int) -> None:
    from regard.decoding.translated_pairs import told

    if told(left_out):
        _say(told(left_out))


def _say(message: str) -> None:
    typer.echo(f"regard: {message}", err=True)
