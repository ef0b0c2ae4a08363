"""Token and sequence error rates, as for pronunciations or dates, and exact match."""

from collections.abc import Mapping, Sequence

from regard.errors import DataError
from regard.evaluation.bleu_chrf import References, check_lines
from regard.evaluation.report import Score


def distance(written: Sequence[str], reference: Sequence[str]) -> int:
    """Return the edit distance: insertions, deletions and substitutions (Levenshtein 1966)."""
    above = list(range(len(reference) + 1))
    for row, token in enumerate(written, start=1):
        line = [row]
        for column, other in enumerate(reference, start=1):
            line.append(min(above[column] + 1, line[-1] + 1, above[column - 1] + (token != other)))
        above = line
    return above[-1]


def error_rates(written: Mapping[str, str], references: Mapping[str, Sequence[str]]) -> tuple[Score, Score]:
    """Return the token and the sequence error rate, given the output and the references of each source.

    Tokens are split at white space. If a source has several references (the pronunciations of a word), the one with the
    fewest edits counts, or the longest of equals. The token error rate is all edits divided by all tokens of those
    references; the sequence error rate is the share of sources whose output equals no reference.
    """
    if not references:
        raise DataError("There are no hypotheses, so there is nothing to score.")
    edits = tokens = wrong = 0
    for source, right in references.items():
        given = written[source].split()
        split = [reference.split() for reference in right]
        fewest, shorter = min((distance(given, reference), -len(reference)) for reference in split)
        edits, tokens, wrong = edits + fewest, tokens - shorter, wrong + (fewest > 0)
    how = "white-space tokens, cased; the nearest of a source's references"
    count = len(references)
    if not tokens:
        raise DataError("The references have no tokens, so there is no token error rate.")
    return (
        Score("token error rate", edits / tokens, f"Levenshtein, {how}", tokens, "tokens", best="low", rate=True),
        Score("sequence error rate", wrong / count, f"any edit, {how}", count, "sources", best="low", rate=True),
    )


def exact_match(hypotheses: Sequence[str], references: References) -> Score:
    """Return the share of lines that equal one of their references, ignoring white space at the ends."""
    check_lines(hypotheses, references)
    same = 0
    for written, right in zip(hypotheses, references, strict=True):
        same += any(written.strip() == one.strip() for one in ((right,) if isinstance(right, str) else right))
    return Score("exact match", same / len(references), "whole lines, cased", len(references), rate=True)
