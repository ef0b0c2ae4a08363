"""Open an exported model that reads texts."""

from pathlib import Path

from regard.errors import ModelError
from regard.runtime.graphs import read_export
from regard.runtime.text_labeller import TextLabeller
from regard.runtime.translator import Translator


def load(folder: str | Path, threads: int = 1) -> Translator | TextLabeller:
    """Open the folder that `regard export` wrote: a `Translator` (language models, too), or a `TextLabeller`.

    `threads` is the number of threads of a matrix product; 0 for as many as the machine has cores. One is the fastest
    for small models, whose products are too short to be shared.
    """
    folder = Path(folder)
    export = read_export(folder)
    if "image" in export:
        raise ModelError(f"{folder} holds a model that reads pictures: run it with python {folder / 'run.py'}.")
    return (TextLabeller if "labels" in export else Translator)(export, folder, threads)
