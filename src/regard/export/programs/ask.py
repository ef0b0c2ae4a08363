"""Answer questions about a picture: `python run.py picture.png "how many circles are there?"`."""

import sys

import numpy as np

from regard.export.programs.graphs import Graph, read_export
from regard.export.programs.pixels import read_picture, shares

UNKNOWN, ASK = 1, 2
"""The marks of a word that is not known, and of a question."""
TOP = 3


def main() -> None:
    """Print the most probable answers to each question."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    export = read_export()
    graph = Graph("model.onnx")
    numbers = {word: number for number, word in enumerate(export["words"])}
    picture = read_picture(sys.argv[1], export["image"])
    for question in sys.argv[2:]:
        words = question.lower().replace("?", " ").split()
        tokens = np.array([[ASK, *(numbers.get(word, UNKNOWN) for word in words)]])
        given = {**picture, "question": tokens, "question_mask": np.ones(tokens.shape, np.bool_)}
        chances = shares(graph.run(given)["logits"][0])
        for answer in (-chances).argsort(kind="stable")[:TOP]:
            print(f"{chances[answer]:.4f}\t{export['answers'][answer]}")


if __name__ == "__main__":
    main()
