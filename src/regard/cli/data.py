"""`regard data`."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.options import check_at_least
from regard.errors import DataError

if TYPE_CHECKING:
    from regard.data.pair import Pair


def data(
    parts: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS",
            help="An embedded name, one file, - for stdin, or two parallel files (and a third with alignments).",
            show_default=False,
        ),
    ],
    split: Annotated[
        str, typer.Option(metavar="PART", help="Which part of an embedded corpus: train, valid or test.")
    ] = "train",
    size: Annotated[int | None, typer.Option(metavar="N", help="Only so many pairs.  [default: all]")] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of an embedded corpus.")] = 1,
    reverse: Annotated[
        bool, typer.Option("--reverse", help="Make the targets sources, and the sources targets.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSONL instead of TSV.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Read everything and print only what it amounts to.")] = False,
) -> None:
    """Print a corpus as TSV, or check it.

    A line is source TAB target, and TAB gold alignment where there is one: what --data reads. A corpus of plain text is
    printed as it is, one text a line.
    """
    check_at_least(1, size=size)
    from regard.data.corpus import open_corpus
    from regard.data.embedded import corpora

    if size is not None and len(parts) == 1 and parts[0] in corpora:
        parts = [f"{parts[0]}:{size}"]  # embedded corpora have as many pairs as one likes
    corpus = open_corpus(parts, split, seed)
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
    count, aligned, sides = 0, 0, {"source": _Side(), "target": _Side()}
    for pair in pairs:
        count += 1
        aligned += pair.alignment is not None
        sides["source"].add(pair.source)
        sides["target"].add(pair.target)
    lines = [f"{name}: {count:,} pairs, {aligned:,} with a gold alignment" if paired else f"{name}: {count:,} texts"]
    for side, found in sides.items():
        if paired or side == "target":
            told = f"{found.words:,} words, {found.words / count:.1f} a line, at most {found.longest:,}"
            lines.append(f"  {side if paired else 'text'}: {told}")
    return "\n".join(lines)
