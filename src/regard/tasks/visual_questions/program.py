"""Answer questions about a picture: `python run.py picture.png "how many circles are there?"`."""

import sys
from pathlib import Path

import numpy as np

from regard.runtime.graphs import Graph, read_export, shares
from regard.runtime.pixels import read_pictures

HERE = Path(__file__).parent
ASK = 2
"""The id of the question token, which comes first."""
TOP = 3


def main() -> None:
    """Print the most probable answers to each question."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    export = read_export(HERE)
    graph = Graph(HERE / "model.onnx")
    numbers = {word: number for number, word in enumerate(export["words"])}
    picture = next(given for _, given in read_pictures(sys.argv[1:2], export["image"]))
    for question in sys.argv[2:]:
        words = question.lower().replace("?", " ").split()
        if unknown := [word for word in words if word not in numbers]:
            sys.exit(f"The question has words that the model does not know: {', '.join(unknown)}.")
        tokens = np.array([[ASK, *(numbers[word] for word in words)]])
        given = {**picture, "question": tokens, "question_mask": np.ones(tokens.shape, np.bool_)}
        chances = shares(graph.run(given)["logits"][0])
        for answer in (-chances).argsort(kind="stable")[:TOP]:
            print(f"{chances[answer]:.4f}\t{export['answers'][answer]}")


if __name__ == "__main__":
    main()
