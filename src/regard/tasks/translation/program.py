"""Translate standard input line by line: `python run.py < texts.txt`. A language model continues each line instead."""

import sys

import numpy as np

from regard.export.programs.graphs import read_export
from regard.export.programs.greedy_decoding import Writer
from regard.export.programs.tokens import Tokenizer


def main() -> None:
    """Read lines, and write their translations."""
    export = read_export()
    writer, end = Writer(export), export["marks"]["end"]
    source, target = Tokenizer(export["source"]), Tokenizer(export["target"])
    for number, line in enumerate(sys.stdin):
        text = line.rstrip("\r\n")
        text = text if number else text.removeprefix("\ufeff")
        if export["reads"] and not text.strip():
            print()
            continue
        if export["reads"] and export["source"]["kind"] in ("bpe", "unigram"):
            text = text.strip()  # a space around a sentence would be a piece that training hardly saw
        read = [*source.encode(text), end] if export["reads"] else [end]
        most = export["search"]["most_read"] or len(read)
        read = read if len(read) <= most else [*read[: most - 1], end]
        tokens = np.array([read])
        given = {"source": tokens, "mask": np.ones(tokens.shape, np.bool_)}
        written, _ = writer.write(given, len(read), () if export["reads"] else target.encode(text))
        print(" ".join(target.decode(written).splitlines()), flush=True)


if __name__ == "__main__":
    main()
