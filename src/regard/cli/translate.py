"""`regard translate`."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.options import Beam, Device, Model


def translate(
    model: Model,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(help="Print this many translations of each line, with scores.")] = 1,
    batch: Annotated[int, typer.Option(help="Sentences searched at once.")] = 64,
    device: Device = "auto",
) -> None:
    """Translate lines from stdin to stdout: line i of the output is the translation of line i of the input.

    With --n-best every line is followed by others: number, score and text, separated by tabs.
    """
    from regard.decoding.lines import as_they_come
    from regard.decoding.translator import Translator

    translator = Translator.load(Path(model), device)
    for lines in as_they_come(sys.stdin.buffer):
        for number, best in enumerate(translator.stream(lines.texts, beam=beam, n_best=n_best, batch_size=batch)):
            if n_best == 1:
                print(best.text)
            else:
                for other in (best, *best.n_best):
                    print(f"{lines.first + number}\t{other.score:.4f}\t{other.text}")
        sys.stdout.flush()
