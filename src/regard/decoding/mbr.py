r"""Minimum Bayes risk: of several samples, the one that is most like all the others.

.. math::
    \hat y = \mathrm{argmax}_{h \in H} \frac{1}{|R|} \sum_{r \in R} u(h, r)
    \qquad H = R = \{y_1 … y_n\} \sim p(y|x)

(Eikema & Aziz 2020, section 5; Freitag et al. 2022.) The most probable translation can be a freak, such as an empty
one; what is like most of what the model would write is seldom one.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from regard.config import DecodingConfig
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.methods import Request, methods
from regard.decoding.sample import draw
from regard.models.protocol import Decoder, Encoded
from regard.registry import Registry

Utility = Callable[[str, str], float]
"""How good a text is where another one is right, from 0 to 100."""

utilities: Registry[Utility] = Registry("utility", "utilities")

_CHRF = CHRF()
_BLEU = BLEU(effective_order=True)


@utilities.register("chrf")
def chrf(text: str, reference: str) -> float:
    """Return the F-score of character n-grams of one text (chrF2, Popović 2015), by sacreBLEU."""
    return float(_CHRF.sentence_score(text, [reference]).score)


@utilities.register("bleu")
def bleu(text: str, reference: str) -> float:
    """Return BLEU of one text: orders up to its length, smoothed exponentially, by sacreBLEU."""
    return float(_BLEU.sentence_score(text, [reference]).score)


@methods.register("mbr")
def minimum_bayes_risk(
    decoder: Decoder[Any], encoded: Encoded, options: DecodingConfig, request: Request
) -> list[list[Hypothesis]]:
    """Of decoding.samples samples, take the one most like the others (Eikema & Aziz 2020; chrF or BLEU).

    The score is the mean utility. Of samples that read the same, the first stands for all of them. An empty one is of
    no use, also where others are empty too.
    Differs from the papers: samples are candidates and references at once, as in Eikema & Aziz; Freitag et al. learn
    the utility.
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
    """Return the place of each distinct text and its mean utility over all texts, itself among them, best first."""
    counts = Counter(texts)
    first = {text: place for place, text in reversed(list(enumerate(texts)))}
    means = {text: sum(count * utility(text, other) for other, count in counts.items()) / len(texts) for text in counts}
    return sorted(((first[text], mean) for text, mean in means.items()), key=lambda pair: (-pair[1], pair[0]))
