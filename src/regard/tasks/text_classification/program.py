"""Classify standard input line by line: `python run.py < texts.txt`."""

import itertools
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from regard.export.programs.graphs import Graph, read_export, shares
from regard.export.programs.tokens import Tokenizer


def main() -> None:
    """Print the probability and the class of each line; an empty line stays empty."""
    export = read_export()
    graph, tokenizer = Graph("model.onnx"), Tokenizer(export["source"])
    ends = export["sentence_ends"] and {name: {*found} for name, found in export["sentence_ends"].items()}
    for number, line in enumerate(sys.stdin):
        text = line.rstrip("\r\n")
        text = text if number else text.removeprefix("\ufeff")
        if not text.strip():
            print(flush=True)
            continue
        ids = [*tokenizer.encode(text), export["end"]]
        longest = export["longest"]
        if longest and len(ids) > longest:
            ids = [*ids[: longest - 1], export["end"]]
        sentences = cut(ids, ends) if ends else [ids]
        tokens = np.zeros((len(sentences), max(map(len, sentences))), np.int64)
        mask = np.zeros(tokens.shape, np.bool_)
        for row, sentence in enumerate(sentences):
            tokens[row, : len(sentence)] = sentence
            mask[row, : len(sentence)] = True
        chances = shares(graph.run({"tokens": tokens, "mask": mask})["logits"][0])
        best = int(chances.argmax())
        print(f"{chances[best]:.4f}\t{export['labels'][best]}", flush=True)


def cut(ids: Sequence[int], ends: Mapping[str, set[int]]) -> list[list[int]]:
    """Split a text's tokens into sentences; the end mark stays with the last."""
    sentences: list[list[int]] = [[]]
    goes_on = ends["always"] | ends["before_space"] | ends["closing"]
    always = ended = False
    for token, following in itertools.pairwise(ids):
        closing = token in ends["closing"]
        always = token in ends["always"] or (closing and always)
        ended = token in ends["always"] or token in ends["before_space"] or (closing and ended)
        sentences[-1].append(token)
        final = (always and following not in goes_on) or (ended and following in ends["opens"])
        if final and following != ids[-1]:
            sentences.append([])
    sentences[-1].append(ids[-1])
    return sentences


if __name__ == "__main__":
    main()
