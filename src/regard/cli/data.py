"""`regard data`."""

import json
from itertools import islice
from typing import Annotated

import typer

from regard.errors import DataError


def data(
    parts: Annotated[
        list[str],
        typer.Argument(metavar="CORPUS...", help="An embedded name, one file, - for stdin, or two parallel files."),
    ],
    split: Annotated[str, typer.Option(help="Which part of an embedded corpus: train, valid or test.")] = "train",
    size: Annotated[int | None, typer.Option(help="Print this many pairs. [all]")] = None,
    seed: Annotated[int, typer.Option(help="Seed of an embedded corpus.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSONL instead of TSV.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Read everything and print only what it amounts to.")] = False,
) -> None:
    """Print a corpus as TSV (source, target, and the gold alignment where there is one), or check it."""
    if size is not None and size < 0:
        raise DataError(f"--size is {size}; it must be at least 0.")
    from regard.data.corpus import open_corpus

    corpus = open_corpus(parts, split, seed)
    pairs = islice(corpus, size) if size is not None else iter(corpus)
    if check:
        lengths = [(len(pair.source.split()), len(pair.target.split()), pair.alignment is not None) for pair in pairs]
        sources, targets, aligned = (list(column) for column in zip(*lengths, strict=True))
        print(f"{corpus.name}: {len(lengths):,} pairs, {sum(aligned):,} with a gold alignment")
        for side, words in (("source", sources), ("target", targets)):
            print(f"  {side}: {sum(words):,} words, {sum(words) / len(words):.1f} a line, at most {max(words)}")
        return
    for pair in pairs:
        alignment = None if pair.alignment is None else str(pair.alignment)
        if as_json:
            record = {"source": pair.source, "target": pair.target}
            print(json.dumps(record | ({"alignment": alignment} if alignment is not None else {}), ensure_ascii=False))
        else:
            print(pair.source, pair.target, *([alignment] if alignment is not None else []), sep="\t")
