r"""Alignment error rate (Och & Ney 2003, section 5.1): whether the model looks at the word that it translates.

.. math:: \mathrm{AER}(S, P; A) = 1 - \frac{|A \cap S| + |A \cap P|}{|A| + |S|}

`S` are the sure links of a gold alignment, `P` the possible ones (the sure ones among them), `A` those to be judged.
"""

from collections.abc import Iterable

from regard.data.pair import Alignment, Links
from regard.errors import DataError
from regard.evaluation.report import Score
from regard.viz.trace import AttentionTrace


def links(trace: AttentionTrace) -> Links:
    """Link each target word to the source word it looked at most; a word that looked at no word has no link.

    Weights are the mean over layers and heads, merged from tokens to words. The lowest of equal sources is taken.
    """
    look = trace.words()
    if not look.size:
        return frozenset()
    return frozenset((int(row.argmax()), target) for target, row in enumerate(look) if row.max() > 0)


def alignment_error_rate(judged: Iterable[tuple[Links, Alignment]]) -> Score:
    """Return AER over a corpus: the counts of all sentences are added up first."""
    hits = total = count = 0
    for found, gold in judged:
        hits += len(found & gold.sure) + len(found & gold.possible)
        total += len(found) + len(gold.sure)
        count += 1
    if not total:
        raise DataError("There are no links, neither found nor sure, so there is no alignment error rate.")
    how = "the source word most looked at by each target word, forced decoding of the reference, subwords merged"
    return Score("AER", 1 - hits / total, how, count, best="low", rate=True)
