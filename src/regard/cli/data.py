"""`regard data`."""

import json
import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.options import check_at_least
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.corpus import Corpus
    from regard.data.scenes import Scene


def data(
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="A name (regard list corpora), one file, - for stdin, two parallel files (and a third with "
            "alignments), or pictures: a folder of images or an .npz file of region features, and a captions file.",
            show_default=False,
        ),
    ],
    split: Annotated[
        str | None,
        typer.Option(metavar="PART", help="Which part of an embedded corpus: train, valid or test.  [default: train]"),
    ] = None,
    size: Annotated[int | None, typer.Option(metavar="N", help="Only so many pairs.  [default: all]")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of an embedded corpus.")] = 1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Make the targets sources, and the sources targets.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSONL instead of TSV.")] = False,
    check: Annotated[
        bool, typer.Option("--check", help="Read everything; print what it amounts to and what is wrong with it.")
    ] = False,
    clean: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the pairs that do not look wrong (.tsv, .jsonl).", show_default=False),
    ] = None,
    drop: Annotated[
        str | None,
        typer.Option(metavar="RULES", help="Which rules of --check are wrong, with commas.  [default: as the data is]"),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="CORPUS", help="Check for pairs of this one, which is held out (A,B: two files)."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Of scenes: write pictures, captions and questions here.", show_default=False
        ),
    ] = None,
    pixels: Annotated[
        int | None, typer.Option(metavar="N", help="Of scenes: height and width, 32 to 128.  [default: 64]")
    ] = None,
) -> None:
    """Print, check or clean a corpus.

    A line is source TAB target, and TAB gold alignment where there is one: what --data reads. A corpus of plain text is
    printed as it is, one text a line. Of pictures, captions are printed, of the embedded ones (scenes) questions too.
    """
    check_at_least(1, size=size, pixels=pixels)
    from regard.data.pictures import EMBEDDED, are_pictures, open_scenes

    pictured = are_pictures(parts)
    _check_options(parts[0], pictured, check or clean is not None, clean, drop, against)
    if pictured and reverse:
        raise DataError(f"{parts[0]} has pictures, and --reverse is for pairs: leave it out.")
    if len(parts) == 1 and parts[0].partition(":")[0] == EMBEDDED:
        sized = any(detail.isdecimal() for detail in parts[0].split(":"))
        given = parts[0] if size is None or sized else f"{parts[0]}:{size}"
        scenes = open_scenes(given, split or "train", seed, 64 if pixels is None else pixels)
        _show_scenes(scenes.name, islice(map(scenes.scene, range(len(scenes))), size), out, as_json, check)
        return
    if out is not None or pixels is not None:
        raise DataError("--out and --pixels are for scenes, which are painted: leave them out.")
    if pictured:
        _show_pictures(parts, split, size, as_json, check)
        return
    from regard.data.builtin_corpora import corpora
    from regard.data.corpus import open_corpus
    from regard.data.pair import record, row

    if size is not None and len(parts) == 1 and parts[0] in corpora:
        parts = [f"{parts[0]}:{size}"]  # embedded corpora have as many pairs as one likes
    corpus = open_corpus(parts, split or "train", seed)
    check_split(split, parts)
    checked = check or clean is not None
    if not corpus.paired and (reverse or (as_json and not checked)):
        what = "--reverse" if reverse else "--json"
        raise DataError(f"{corpus.name} has one text a line, and {what} is for pairs: leave it out.")
    if checked:
        print(_checked(corpus, clean, against or (), drop, size, reverse, as_json))
        return
    pairs = (pair.reversed() if reverse else pair for pair in islice(corpus, size))
    for number, pair in enumerate(pairs, start=1):
        if not corpus.paired:
            print(pair.target)
        else:
            print(record(pair) if as_json else row(pair, corpus.name, number))


def _check_options(
    given: str, pictured: bool, checked: bool, clean: Path | None, drop: str | None, against: list[str] | None
) -> None:
    for option, value in (("--clean", clean), ("--drop", drop), ("--against", against)):
        if value is not None and pictured:
            raise DataError(f"{given} has pictures, and {option} is for texts: leave it out.")
        if value is not None and not checked:
            raise DataError(f"{option} goes with --check or --clean.")


def _checked(
    corpus: "Corpus",
    clean: Path | None,
    against: Sequence[str],
    drop: str | None,
    size: int | None,
    reverse: bool,
    as_json: bool,
) -> str:
    """Check or clean texts, and say what was found."""
    from regard.data import check_report, corpus_checks, corpus_cleaning
    from regard.data.corpus import open_corpus

    rules = None if drop is None else tuple(filter(None, (name.strip() for name in drop.split(","))))
    options = corpus_checks.Options(rules, size, reverse)
    held_out = [open_corpus(parts.split(","), "valid") for parts in against]
    if clean is None:
        checked = corpus_checks.check(corpus, held_out, options)
        return _json(check_report.to_json(checked)) if as_json else check_report.report(checked)
    cleaned = corpus_cleaning.clean(corpus, clean, held_out, options)
    return _json(check_report.cleaned_to_json(cleaned)) if as_json else check_report.account(cleaned)


def _json(found: dict[str, Any]) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2)


def check_split(split: str | None, parts: Sequence[str]) -> None:
    """Refuse a part of what is taken whole."""
    from regard.data.builtin_corpora import corpora
    from regard.data.pictures import held_out

    embedded = len(parts) == 1 and parts[0].partition(":")[0] in corpora
    if split is not None and not embedded and not held_out(parts):
        raise DataError(f"Leave out --split: {parts[0]} has no parts, as embedded corpora have.")


def _show_scenes(name: str, scenes: "Iterable[Scene]", out: Path | None, as_json: bool, check: bool) -> None:
    from regard.data.region_features import counted
    from regard.data.scenes import export

    if out is not None:
        count = export.export(scenes, out)
        print(f"{out}: {counted(count, 'picture')}, captions.tsv, questions.tsv, scenes.jsonl", file=sys.stderr)
    elif check:
        print(export.summary(name, scenes))
    else:
        for scene in scenes:
            rows = [export.to_json(scene)] if as_json else [*export.caption_rows(scene), *export.question_rows(scene)]
            print("\n".join(rows))


def _show_pictures(parts: list[str], split: str | None, size: int | None, as_json: bool, check: bool) -> None:
    """Check pictures from files as captioners read them, plainly; print captions as they are."""
    from regard.data.picture_summary import caption_rows, summary
    from regard.data.pictures import open_pictures

    if as_json and not check:
        raise DataError(f"{parts[0]} has pictures, and of these --json is for scenes alone: leave it out.")
    pictures = open_pictures(parts, split or "train", plain=check)
    check_split(split, parts)
    if check:
        print(summary(pictures, size))
        return
    for row in caption_rows(pictures, size):
        print(row)
