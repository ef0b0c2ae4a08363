"""Score a text classifier on a corpus: accuracy, F1, the loss, and each class by itself."""

from collections.abc import Sequence

import numpy as np

from regard.data.pair import Pair
from regard.errors import DataError
from regard.evaluation.classification import f1_of_each, macro_f1
from regard.evaluation.report import Report, Score
from regard.tasks.text_classification.predictor import TextLabeller
from regard.tasks.text_classification.training import check_known

MOST_SHOWN = 50
"""Classes that get a line of their own."""


def evaluate_texts(labeller: TextLabeller, pairs: Sequence[Pair], name: str) -> Report:
    """Classify the sources and compare with the targets, the names of classes."""
    if not pairs:
        raise DataError(f"{name} has no texts, so there is nothing to evaluate.")
    classes = labeller.classes
    check_known(pairs, classes, name, "the model")
    numbers = {label: number for number, label in enumerate(classes)}
    right = np.array([numbers[" ".join(pair.target.split())] for pair in pairs])
    log_probs = labeller.log_probs([pair.source for pair in pairs])
    chosen = log_probs.argmax(axis=1)
    nll = -log_probs[np.arange(len(right)), right].astype(float)
    most = float(np.bincount(right).max() / len(right))
    how = f"the most probable class is the right one; the most frequent class alone has {100 * most:.2f}"
    scores = [
        Score("accuracy", 100 * float((chosen == right).mean()), how, len(right), "texts"),
        Score("macro F1", 100 * macro_f1(right, chosen, len(classes)), "mean over classes", len(right), "texts"),
        Score("loss", float(nll.mean()), "mean negative log-likelihood", len(right), "texts", best="low", rate=True),
    ]
    each = f1_of_each(right, chosen, len(classes))
    for place, label in enumerate(classes[:MOST_SHOWN]):
        if count := int((right == place).sum()):
            scores.append(Score(label, 100 * float(each[place]), "F1 of this class", count, "texts", partial=True))
    written = tuple(classes[place] for place in chosen)
    return Report(name, len(right), "nothing searched", tuple(scores), (), "", written, unit="texts")
