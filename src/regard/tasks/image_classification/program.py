"""Classify pictures: `python run.py picture.png`."""

import sys
from pathlib import Path

from regard.runtime.graphs import Graph, read_export, shares
from regard.runtime.pixels import before, read_pictures

HERE = Path(__file__).parent
TOP = 3


def main() -> None:
    """Print the most probable classes of each picture on the command line."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export = read_export(HERE)
    graph = Graph(HERE / "model.onnx")
    for path, given in read_pictures(sys.argv[1:], export["image"]):
        chances = shares(graph.run(given)["logits"][0])
        for label in (-chances).argsort(kind="stable")[:TOP]:
            print(f"{before(path)}{chances[label]:.4f}\t{export['labels'][label]}")


if __name__ == "__main__":
    main()
