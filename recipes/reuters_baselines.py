"""Two classifiers that know no order of words, on the parts that recipes/reuters_prepare.py makes.

    python3 recipes/reuters_baselines.py data/reuters

Multinomial naive Bayes with add-one counts smoothed by a constant, and logistic regression on TF-IDF vectors of unit
length. The constant and the weight of the L2 penalty are chosen on the validation part; then the test part is scored.
"""

import json
import re
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import torch

from regard.data.corpus import open_corpus
from regard.evaluation.classification import macro_f1
from regard.shapes import Tensor

Counts = list[Counter[str]]
SMOOTHED = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003)
PENALTIES = (1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 3e-7, 1e-7)
LEAST = 2
"""Articles that a word must stand in."""


def read(file: Path) -> tuple[Counts, list[str]]:
    """Return the words of each text, and its class."""
    pairs = list(open_corpus([str(file)]))
    return [Counter(re.findall(r"[a-z]+|\d+", pair.source.lower())) for pair in pairs], [pair.target for pair in pairs]


def matrix(texts: Counts, words: dict[str, int]) -> Tensor:
    """Return how often each word stands in each text."""
    found = torch.zeros(len(texts), len(words))
    for row, counts in enumerate(texts):
        for word, count in counts.items():
            if word in words:
                found[row, words[word]] = count
    return found


def bayes(train: Tensor, labels: Tensor, classes: int, constant: float) -> tuple[Tensor, Tensor]:
    """Return weights and bias of naive Bayes."""
    one = torch.nn.functional.one_hot(labels, classes).float()
    counts = one.T @ train + constant
    return (counts / counts.sum(dim=1, keepdim=True)).log(), one.mean(dim=0).log()


def regression(train: Tensor, labels: Tensor, classes: int, penalty: float) -> tuple[Tensor, Tensor]:
    """Return weights and bias of logistic regression."""
    weight, bias = torch.zeros(train.shape[1], classes, requires_grad=True), torch.zeros(classes, requires_grad=True)
    optimizer = torch.optim.LBFGS([weight, bias], max_iter=100, history_size=10, line_search_fn="strong_wolfe")
    rows, words = train.nonzero(as_tuple=True)
    starts = torch.searchsorted(rows, torch.arange(len(train)))
    sums = partial(torch.nn.functional.embedding_bag, words, offsets=starts, mode="sum")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(sums(weight, per_sample_weights=train[rows, words]) + bias, labels)
        loss = loss + 0.5 * penalty * weight.square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    return weight.detach().T, bias.detach()


def scores(texts: Tensor, labels: Tensor, weight: Tensor, bias: Tensor) -> tuple[float, float]:
    """Return accuracy and macro F1 in per cent."""
    chosen = (texts @ weight.T + bias).argmax(dim=1)
    right = 100 * (chosen == labels).float().mean().item()
    return right, 100 * macro_f1(labels.numpy(), chosen.numpy(), len(bias))


def main() -> None:
    """Choose, score and print."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    parts = {part: read(Path(sys.argv[1]) / f"{part}.tsv") for part in ("train", "valid", "test")}
    found = Counter(word for counts in parts["train"][0] for word in counts)
    words = {word: place for place, word in enumerate(word for word, count in found.items() if count >= LEAST)}
    names = {name: place for place, name in enumerate(sorted({*parts["train"][1]}))}
    labels = {part: torch.tensor([names[name] for name in given]) for part, (_, given) in parts.items()}
    counts = {part: matrix(texts, words) for part, (texts, _) in parts.items()}
    rarity = torch.from_numpy(np.log(len(labels["train"]) / np.array([found[word] for word in words]))).float()
    vectors = {part: torch.nn.functional.normalize(one.log1p() * rarity, dim=1) for part, one in counts.items()}
    systems = {"naive Bayes": (bayes, counts, SMOOTHED), "logistic regression": (regression, vectors, PENALTIES)}
    for name, (fit, data, settings) in systems.items():
        tried = []
        for setting in settings:
            made = fit(data["train"], labels["train"], len(names), setting)
            tried.append((scores(data["valid"], labels["valid"], *made)[0], setting, made))
        valid, setting, made = max(tried, key=lambda one: one[0])
        accuracy, f1 = scores(data["test"], labels["test"], *made)
        found = {"chosen": setting, "valid accuracy": valid, "accuracy": accuracy, "macro F1": f1}
        print(json.dumps({"name": name, **{key: float(f"{value:.4g}") for key, value in found.items()}}), flush=True)


if __name__ == "__main__":
    main()
