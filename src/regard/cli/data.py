"""`regard data`."""

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import check_at_least
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.pair import Pair
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
    check: Annotated[bool, typer.Option("--check", help="Read everything and print only what it amounts to.")] = False,
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
    """Print a corpus as TSV, or check it.

    A line is source TAB target, and TAB gold alignment where there is one: what --data reads. A corpus of plain text is
    printed as it is, one text a line. Of pictures, captions are printed, of the embedded ones (scenes) questions too.
    """
    check_at_least(1, size=size, pixels=pixels)
    from regard.data.pictures import EMBEDDED, are_pictures, open_scenes

    pictured = are_pictures(parts)
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
    from regard.data.corpus import open_corpus
    from regard.data.embedded import corpora

    if size is not None and len(parts) == 1 and parts[0] in corpora:
        parts = [f"{parts[0]}:{size}"]  # embedded corpora have as many pairs as one likes
    corpus = open_corpus(parts, split or "train", seed)
    check_split(split, parts)
    if not corpus.paired and (reverse or as_json):
        what = "--reverse" if reverse else "--json"
        raise DataError(f"{corpus.name} has one text a line, and {what} is for pairs: leave it out.")
    pairs = (pair.reversed() if reverse else pair for pair in islice(corpus, size))
    if check:
        print(_summary(corpus.name, pairs, corpus.paired))
        return
    for number, pair in enumerate(pairs, start=1):
        if not corpus.paired:
            print(pair.target)
        else:
            print(_record(pair) if as_json else _row(pair, corpus.name, number))


def check_split(split: str | None, parts: Sequence[str]) -> None:
    """Refuse a part of what is taken whole."""
    from regard.data.embedded import corpora
    from regard.data.pictures import held_out

    embedded = len(parts) == 1 and parts[0].partition(":")[0] in corpora
    if split is not None and not embedded and not held_out(parts):
        raise DataError(f"Leave out --split: {parts[0]} has no parts, as embedded corpora have.")


def _show_scenes(name: str, scenes: "Iterable[Scene]", out: Path | None, as_json: bool, check: bool) -> None:
    from regard.data.regions import counted
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


def _record(pair: "Pair") -> str:
    alignment = {} if pair.alignment is None else {"alignment": str(pair.alignment)}
    return json.dumps({"source": pair.source, "target": pair.target, **alignment}, ensure_ascii=False)


def _row(pair: "Pair", name: str, number: int) -> str:
    texts = [pair.source, pair.target]
    if any("\t" in text or "\n" in text or text.endswith("\r") for text in texts):
        raise DataError(f"{name}, pair {number:,}: a tab or a line break, which TSV cannot hold. Use --json.")
    return "\t".join([*texts, *([] if pair.alignment is None else [str(pair.alignment)])])


@dataclass
class _Side:
    words: int = 0
    longest: int = 0

    def add(self, text: str) -> None:
        count = len(text.split())
        self.words += count
        self.longest = max(self.longest, count)


def _summary(name: str, pairs: "Iterable[Pair]", paired: bool) -> str:
    from regard.data.regions import counted

    count, aligned, sides = 0, 0, {"source": _Side(), "target": _Side()}
    for pair in pairs:
        count += 1
        aligned += pair.alignment is not None
        sides["source"].add(pair.source)
        sides["target"].add(pair.target)
    gold = f", {aligned:,} with a gold alignment" if paired else ""
    lines = [f"{name}: {counted(count, 'pair' if paired else 'text')}{gold}"]
    for side, found in sides.items():
        if paired or side == "target":
            told = f"{counted(found.words, 'word')}, {found.words / count:.1f} a line, at most {found.longest:,}"
            lines.append(f"  {side if paired else 'text'}: {told}")
    return "\n".join(lines)
