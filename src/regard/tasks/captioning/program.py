"""Describe pictures: `python run.py picture.png`; of features of regions: `python run.py features.npz picture.jpg`."""

import sys

from regard.export.programs.graphs import read_export
from regard.export.programs.greedy_decoding import Writer
from regard.export.programs.pixels import before, read_pictures
from regard.export.programs.tokens import Tokenizer


def main() -> None:
    """Print a caption of each picture that is named."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export = read_export()
    writer, target = Writer(export), Tokenizer(export["target"])
    for path, given in read_pictures(sys.argv[1:], export["image"]):
        cells = given["mask"].shape[1] if "mask" in given else export["image"]["cells"]
        # writer.write also tells where the model looked for each word, over the cells of the picture.
        written, _ = writer.write(given, cells)
        print(before(path) + target.decode(written))


if __name__ == "__main__":
    main()
