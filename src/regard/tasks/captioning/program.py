"""Describe pictures: `python run.py picture.png`; from region features: `python run.py features.npz picture.jpg`."""

import sys
from pathlib import Path

import numpy as np

from regard.errors import RegardError
from regard.runtime.graphs import read_export
from regard.runtime.pixels import before, read_pictures
from regard.runtime.tokenizer import Tokenizer
from regard.runtime.writer import Writer

HERE = Path(__file__).parent


def main() -> None:
    """Print a caption for each picture on the command line, by the model's own beam search."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export = read_export(HERE)
    writer, target = Writer(export, HERE), Tokenizer(export["target"], HERE)
    options = writer.options
    options.check()
    for path, given in read_pictures(sys.argv[1:], export["image"]):
        mask = given.get("mask", np.ones((1, export["image"]["cells"] or 0), np.bool_))
        # A hypothesis also has the attention of each token over the cells of the picture.
        ((best, *_),) = writer.write({**given, "mask": mask}, options, [()])
        print(before(path) + target.decode(best.tokens))


if __name__ == "__main__":
    try:
        main()
    except RegardError as error:
        print(error, file=sys.stderr)
        sys.exit(2)
