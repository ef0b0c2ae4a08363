"""BLEU (Papineni et al. 2002) and chrF (Popović 2015) by sacreBLEU (Post 2018), with its signatures.

`force` silences sacreBLEU's warning that texts look tokenised: BLEU is given for raw and for tokenised texts, each with
its signature.
"""

from collections.abc import Sequence
from itertools import zip_longest

from sacrebleu.metrics.bleu import BLEU, MAX_NGRAM_ORDER
from sacrebleu.metrics.chrf import CHRF

from regard.errors import DataError
from regard.evaluation.report import LengthBin, Score

References = Sequence[str] | Sequence[tuple[str, ...]]
"""One reference for each line, or several."""
EDGES = (10, 20, 30, 40, 50)
"""The maximum source length, in words, of each bin but the last."""


def bleu(hypotheses: Sequence[str], references: References, name: str = "BLEU") -> Score:
    """Return cased BLEU with sacreBLEU's own tokenisation (13a), the number to compare with today's papers."""
    return _measure(name, BLEU(tokenize="13a", force=True), hypotheses, references)


def bleu_lowercase(hypotheses: Sequence[str], references: References, name: str = "BLEU-lower") -> Score:
    """Return BLEU after lower-casing and tokenising both sides (13a), as older papers report on raw text."""
    return _measure(name, BLEU(tokenize="13a", lowercase=True, force=True), hypotheses, references)


def bleu_pretokenised(hypotheses: Sequence[str], references: References, name: str = "BLEU-lower-split") -> Score:
    """Return BLEU after lower-casing only, with tokens split at white space.

    Older papers report it on tokenised files. On raw text it means little, since a word and the full stop after it are
    then one token.
    """
    return _measure(name, BLEU(tokenize="none", lowercase=True, force=True), hypotheses, references)


def bleu_of_captions(hypotheses: Sequence[str], references: References, order: int = 4, name: str = "") -> Score:
    """Return BLEU with n-grams up to `order`, with words split at white space, as is usual for captions.

    All captions of a picture are its references.
    """
    metric = BLEU(tokenize="none", max_ngram_order=order, force=True)
    return _measure(name or f"BLEU-{order}", metric, hypotheses, references)


def chrf(hypotheses: Sequence[str], references: References, name: str = "chrF") -> Score:
    """Return chrF2: the F-score of character n-grams, with recall weighted twice."""
    return _measure(name, CHRF(), hypotheses, references)


def has_four_tokens(references: References) -> bool:
    """Return whether any reference has at least four tokens (13a); without one, BLEU is always 0."""
    tokenize = BLEU(tokenize="13a").tokenizer
    every = ((right,) if isinstance(right, str) else right for right in references)
    return any(len(tokenize(text).split()) >= MAX_NGRAM_ORDER for texts in every for text in texts)


def bleu_by_length(
    sources: Sequence[str], hypotheses: Sequence[str], references: References, edges: Sequence[int] = EDGES
) -> tuple[LengthBin, ...]:
    """Return cased BLEU (13a) of the sentences of each range of source lengths, counted in words."""
    check_lines(hypotheses, references)
    if list(edges) != sorted(set(edges)) or not all(edge > 0 for edge in edges):
        raise DataError(f"The edges of length bins must rise from 1 or more, got {list(edges)}.")
    bins = []
    words = [len(source.split()) for source in sources]
    for low, high in zip((-1, *edges), (*edges, None), strict=True):
        rows = [row for row, count in enumerate(words) if low < count and (high is None or count <= high)]
        right: References = [references[row] for row in rows]  # type: ignore[assignment]
        value = bleu([hypotheses[row] for row in rows], right).value if rows else None
        # A source without words is in the first bin.
        bins.append(LengthBin(max(low + 1, 1), high, len(rows), value))
    return tuple(bins)


def check_lines(hypotheses: Sequence[str], references: References) -> None:
    """Raise a DataError unless there are as many hypotheses as references, and at least one."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"There are {len(hypotheses):,} hypotheses but {len(references):,} references: they must pair line by line."
        )
    if not hypotheses:
        raise DataError("There are no hypotheses, so there is nothing to score.")


def _measure(name: str, metric: BLEU | CHRF, hypotheses: Sequence[str], references: References) -> Score:
    check_lines(hypotheses, references)
    every = [(right,) if isinstance(right, str) else right for right in references]
    # sacreBLEU takes the first references of all lines, then the second ones, with None where a line has fewer.
    result = metric.corpus_score(list(hypotheses), [list(column) for column in zip_longest(*every)])
    return Score(name, float(result.score), str(metric.get_signature()), len(hypotheses))
