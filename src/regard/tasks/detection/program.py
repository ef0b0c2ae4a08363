"""Detect objects in pictures: `python run.py picture.png`."""

import sys
from pathlib import Path

import numpy as np

from regard.runtime.graphs import Graph, read_export, shares
from regard.runtime.pixels import before, open_picture, read_pictures

HERE = Path(__file__).parent
LEAST = 0.5
"""The minimum probability of an object."""


def main() -> None:
    """Print a probability, a class and a box (left, top, right, bottom, in pixels) for each object."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    export = read_export(HERE)
    graph = Graph(HERE / "model.onnx")
    for path, given in read_pictures(sys.argv[1:], export["image"]):
        found = graph.run(given)
        chances = shares(found["logits"][0])[:, :-1]  # the last class is "no object"
        centre, size = found["boxes"][0, :, :2], found["boxes"][0, :, 2:]
        width, height = open_picture(path).size
        side = min(width, height)
        beside = np.array([(width - side) // 2, (height - side) // 2] * 2)
        boxes = np.concatenate([centre - size / 2, centre + size / 2], axis=1).clip(0, 1) * side + beside
        # found["masks"][0, query] > 0 is the mask of a query's object, in the square that the model read.
        for query in (-chances.max(axis=1)).argsort(kind="stable"):
            if chances[query].max() >= LEAST:
                label, box = chances[query].argmax(), "\t".join(f"{edge:.1f}" for edge in boxes[query])
                print(f"{before(path)}{chances[query].max():.4f}\t{export['labels'][label]}\t{box}")


if __name__ == "__main__":
    main()
