"""`regard compare`."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.completion import assignments, devices, several_presets
from regard.cli.options import (
    Alignment,
    SeveralData,
    Source,
    Tagged,
    Target,
    ValidTagged,
    check_at_least,
)
from regard.data.corpus_arguments import corpus_parts, training_parts
from regard.errors import ConfigError, DataError


def compare(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder for the models and the report.  [default: comparison]"),
    ] = None,
    presets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B,…",
            help="Presets to compare (see: regard list presets, regard list visions).",
            autocompletion=several_presets,
        ),
    ] = None,
    variants: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A TOML file of variants; options given here take precedence.")
    ] = None,
    data: SeveralData = None,
    source: Source = None,
    target: Target = None,
    alignment: Alignment = None,
    tagged: Tagged = None,
    valid_tagged: ValidTagged = None,
    test_tagged: Annotated[
        list[str] | None, typer.Option(metavar="TAG=CORPUS", help="Test corpora for --tagged. Repeatable.")
    ] = None,
    valid: Annotated[
        str | None, typer.Option(metavar="CORPUS", help="Validation corpus; embedded corpora have their own.")
    ] = None,
    valid_source: Annotated[str | None, typer.Option(metavar="FILE", help="Validation source.")] = None,
    valid_target: Annotated[str | None, typer.Option(metavar="FILE", help="Validation target.")] = None,
    test: Annotated[
        str | None,
        typer.Option(metavar="CORPUS", help="Test corpus.  [default: an embedded corpus's test part, else validation]"),
    ] = None,
    test_source: Annotated[str | None, typer.Option(metavar="FILE", help="Test source.")] = None,
    test_target: Annotated[str | None, typer.Option(metavar="FILE", help="Test target.")] = None,
    test_alignment: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Gold word alignments of the test files (i-j, ipj; talp:FILE if counted from 1)."
        ),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Change a setting of all variants (see: regard list settings). Repeatable.",
            autocompletion=assignments,
        ),
    ] = None,
    steps: Annotated[int | None, typer.Option(metavar="N", help="Train each variant for N steps.")] = None,
    epochs: Annotated[int | None, typer.Option(metavar="N", help="Train each variant for N epochs.")] = None,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M", help="Train each variant for the steps it makes in M minutes, estimated by a short trial."
        ),
    ] = None,
    seeds: Annotated[str | None, typer.Option(metavar="N,N,…", help="Train each variant once per seed.")] = None,
    baseline: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Variant that the others are compared with.  [default: the first]"),
    ] = None,
    sentences: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Sentences whose attention the report shows, one per line; for pictures, their numbers.  "
            "[default: four of the test corpus]",
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Train N variants in parallel, one worker process each, spread over the GPUs; 0: in this process.",
        ),
    ] = 1,
    device: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="auto, cpu or cuda: short for --set training.device=NAME.", autocompletion=devices
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Retrain variants whose settings, data or weights have changed.")
    ] = False,
) -> None:
    """Train models under the same conditions and compare them.

    \b
    regard compare --presets cho2014-small,bahdanau2014-small \\
                   --data phrasebook:20000 --steps 1000 --out comparison
    regard compare --presets xu2015-soft-small,xu2015-hard-small \\
                   --data scenes:10000 --steps 3000 --out seeing

    Run the same command again to continue an interrupted comparison. The report is report.html (one self-contained
    page), report.md and results.json. The exit code is 1 if a variant failed.
    """  # noqa: D301 (a raw \b would not keep the lines apart)
    check_at_least(0, jobs=jobs)
    check_at_least(1, steps=steps, epochs=epochs)
    if minutes is not None and not minutes > 0:
        raise ConfigError(f"--minutes is {minutes:g}; it must be above 0.")
    if presets is not None and variants is not None:
        raise ConfigError("Give either --presets or --variants, not both: each lists what to compare.")
    train_parts, mixed = training_parts(data, source, target, alignment)
    given = {
        "data": train_parts,
        "mixed": mixed,
        "valid": corpus_parts(valid, valid_source, valid_target, "valid"),
        "test": corpus_parts(test, test_source, test_target, "test", test_alignment),
        "tagged": tuple(tagged or ()),
        "valid_tagged": tuple(valid_tagged or ()),
        "test_tagged": tuple(test_tagged or ()),
        "set": (*(set_ or []), *([f"training.device={device}"] if device is not None else [])),
        "steps": steps,
        "epochs": epochs,
        "minutes": minutes,
        "seeds": _seeds(seeds) if seeds is not None else (),
        "baseline": baseline,
        "sentences": _lines(sentences) if sentences is not None else (),
    }
    from regard.compare import Request, presets_in, read_request, resolve
    from regard.compare import compare as run
    from regard.compare.variants import merged

    request = (
        read_request(variants)
        if variants is not None
        else Request(variant=tuple(presets_in(presets or "")) if presets else ())
    )
    chosen, terms = resolve(merged(request, given))
    if out is None:
        out = _usual_folder({variant.name for variant in chosen}, overwrite)
    found = run(chosen, out, terms, jobs=jobs, overwrite=overwrite, command=shlex.join(["regard", *sys.argv[1:]]))
    print(found, flush=True)
    for note in found.notes:
        typer.echo(f"regard: {note}", err=True)
    typer.echo(f"Wrote {found.page}, {found.markdown} and {found.results}", err=True)
    if found.failed:
        raise typer.Exit(1)


def _usual_folder(names: set[str], overwrite: bool) -> Path:
    """Return the default output folder; raise a ConfigError if it holds another comparison."""
    folder = Path("comparison")
    try:
        held = {variant["name"] for variant in json.loads((folder / "results.json").read_bytes())["variants"]}
    except (OSError, ValueError, KeyError, TypeError):
        return folder
    if held <= names or overwrite:
        return folder
    raise ConfigError(
        f"{folder} holds a comparison of {', '.join(sorted(held))}: give another folder by --out, or --overwrite."
    )


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ConfigError(f"--seeds must be whole numbers separated by commas, got {text!r}.") from None


def _lines(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not valid UTF-8 (byte {error.start}).") from None
    if not any(line.strip() for line in lines):
        raise DataError(f"{path} is empty: give at least one sentence.")
    return tuple(line for line in lines if line.strip())
