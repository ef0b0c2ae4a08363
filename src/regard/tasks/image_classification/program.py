"""Classify pictures: `python run.py picture.png`."""

import sys

from regard.export.programs.graphs import Graph, read_export, shares
from regard.export.programs.pixels import before, read_pictures

TOP = 3


def main() -> None:
    """Print the most probable classes of each picture on the command line."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export = read_export()
    graph = Graph("model.onnx")
    for path, given in read_pictures(sys.argv[1:], export["image"]):
        chances = shares(graph.run(given)["logits"][0])
        for label in (-chances).argsort(kind="stable")[:TOP]:
            print(f"{before(path)}{chances[label]:.4f}\t{export['labels'][label]}")


if __name__ == "__main__":
    main()
