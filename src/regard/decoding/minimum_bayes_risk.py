r"""Minimum Bayes risk decoding: of several samples, the one most similar to all others.

.. math::
    \hat y = \mathrm{argmax}_{h \in H} \frac{1}{|R|} \sum_{r \in R} u(h, r)
    \qquad H = R = \{y_1 … y_n\} \sim p(y|x)

(Eikema & Aziz 2020, section 5; Freitag et al. 2022.) The most probable translation can be an outlier, such as an empty
one; one that is similar to most of what the model would generate seldom is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import draw
from regard.decoding.search_methods import DecodingRequest, methods
from regard.models.protocol import Decoder, Encoded
from regard.registry import Registry

Utility = Callable[[Sequence[str]], NDArray[np.float64]]
"""Scores of texts against each other, from 0 to 100: a row for each text as hypothesis, a column for each as reference.
One call scores all pairs, so that statistics of a text are computed once."""

utilities: Registry[Utility] = Registry("utility", "utilities")

_ORDERS: Final = range(1, 7)
_BETA: Final = 2


@utilities.register("chrf")
def chrf(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the chrF2 of each text against each (Popović 2015), as sacreBLEU computes it."""
    stripped = ["".join(text.split()) for text in texts]
    precision, recall, orders = (np.zeros((len(texts), len(texts))) for _ in range(3))
    for order in _ORDERS:
        shared = _shared(stripped, order)
        written = np.diagonal(shared)
        both = np.minimum.outer(written, written) > 0  # an order counts if both texts are long enough
        precision += np.where(both, shared / np.maximum(written[:, None], 1), 0)
        recall += np.where(both, shared / np.maximum(written[None, :], 1), 0)
        orders += both
    precision, recall = precision / np.maximum(orders, 1), recall / np.maximum(orders, 1)
    weighted = _BETA**2 * precision + recall
    found = (1 + _BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1)
    return np.asarray(100 * found, dtype=np.float64)


def _shared(texts: Sequence[str], order: int) -> NDArray[np.float64]:
    """Count the n-grams that each pair of texts shares; repeated ones match as often as both have them."""
    columns: dict[tuple[str, int], int] = {}
    rows = [[columns.setdefault(key, len(columns)) for key in _numbered(text, order)] for text in texts]
    there = np.zeros((len(texts), len(columns)))
    for row, own in enumerate(rows):
        there[row, own] = 1
    return np.asarray(there @ there.T)


def _numbered(text: str, order: int) -> Iterator[tuple[str, int]]:
    """Yield the n-grams of a text, each with the number of times that it occurred before."""
    seen: dict[str, int] = {}
    for start in range(len(text) - order + 1):
        gram = text[start : start + order]
        seen[gram] = number = seen.get(gram, -1) + 1
        yield gram, number


@utilities.register("bleu")
def bleu(texts: Sequence[str]) -> NDArray[np.float64]:
    """Return the sentence BLEU of each text against each: effective order, exponential smoothing, by sacreBLEU."""
    from sacrebleu.metrics.bleu import BLEU  # imported only on use, as it is slow

    metric = BLEU(effective_order=True)
    return np.array([[float(metric.sentence_score(text, [right]).score) for right in texts] for text in texts])


@methods.register("mbr")
def minimum_bayes_risk(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: DecodingRequest
) -> list[list[Hypothesis]]:
    """Of decoding.samples samples, return the one most similar to the others (Eikema & Aziz 2020; chrF or BLEU).

    The score is the mean utility. Samples with equal text count together, as the first of them. An empty sample gets no
    utility, even if others are empty too.
    Differs from the papers: samples are both candidates and references, as in Eikema & Aziz; Freitag et al. learn the
    utility.
    """
    outcome = draw(decoder, encoded, options, request, options.samples)
    ends = [end for (end,) in outcome.ends]
    written = outcome.history.written(ends)
    chosen = []
    for first in range(0, len(ends), options.samples):
        own = range(first, first + options.samples)
        texts = [request.write(written[number]) for number in own]
        ranked = rank(texts, utilities[options.mbr_metric])[: request.n_best]
        chosen.append([ends[own[number]]._replace(score=value) for number, value in ranked])
    return outcome.trace(chosen)


def rank(texts: Sequence[str], utility: Utility) -> list[tuple[int, float]]:
    """Return the index of each distinct text and its mean utility over all texts, itself included, best first."""
    counts = Counter(texts)
    found, total = utility(list(counts)), np.zeros(len(counts))
    for column, count in enumerate(counts.values()):
        total += count * found[:, column]
    means = (total / len(texts)).tolist()
    places = (texts.index(text) for text in counts)
    return sorted(zip(places, means, strict=True), key=lambda pair: (-pair[1], pair[0]))
