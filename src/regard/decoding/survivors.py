"""Terms that must survive, from the source line that calls for them to the text that holds them."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.tokenizers.base import Tokenizer, is_mark
from regard.data.vocabulary import UNK
from regard.decoding.constraints import Constraints
from regard.decoding.glossary import read_glossary
from regard.decoding.occurrences import Pattern
from regard.decoding.spelling import UNKNOWN, Spelling
from regard.decoding.terms import Term, Terms
from regard.errors import ModelError
from regard.viz.trace import AttentionTrace

Glossary = Mapping[str, str] | str | Path
"""Target terms by source terms, or the file that has them."""


class Held(NamedTuple):
    """What the translation of one text must hold."""

    text: str
    """The source that calls for it."""
    terms: list[Term]
    constraints: Constraints
    """What the search has to know; the same for all texts with the same terms."""


class Survivors:
    """Tells what translations must hold, and writes what the vocabulary lacks into those that were found."""

    def __init__(self, tokenizer: Tokenizer, keep: str = "", glossary: Glossary | None = None) -> None:
        if isinstance(glossary, str | Path):
            glossary = read_glossary([str(glossary)])
        self._terms = Terms(keep, glossary)
        self._spelling = Spelling(tokenizer)
        self._known: dict[tuple[tuple[str | bool, ...], ...], Constraints] = {}

    def of(self, text: str) -> Held | None:
        """Return what the translation of a text must hold; None where it need not hold anything."""
        terms = self._terms.of(text)
        if not terms:
            return None
        key = tuple(term[:-1] for term in terms)
        if key not in self._known:
            self._known[key] = Constraints(terms, self._spelling)
        return Held(text, terms, self._known[key])

    def write(self, held: Held, tokens: Sequence[int], written: str, trace: AttentionTrace) -> str:
        """Put terms into what was written, where tokens stand for what the vocabulary lacks; see that all are there."""
        if held.constraints.has_unknown:
            written = self._filled(written, tokens, self._unknown(held, tokens, trace))
        self._check(held, written)
        return written

    def _filled(self, written: str, tokens: Sequence[int], unknown: Mapping[int, str]) -> str:
        """Replace tokens by what they stand for."""
        body = [place for place, token in enumerate(tokens) if not is_mark(token)]
        if self._spelling.kind == "words":  # others may have been replaced already
            units = zip(body, written.split(" "), strict=True)
            return " ".join(unknown.get(place, unit) for place, unit in units)
        surfaces = self._spelling.tokenizer.surfaces(tokens)
        return "".join(unknown.get(place, surfaces[place]) for place in body)

    def _unknown(self, held: Held, tokens: Sequence[int], trace: AttentionTrace) -> dict[int, str]:
        """Tell what tokens stand for, by their places; of several terms, the one that was looked at most."""
        spelt = [self._spelling.bytes_of(token) for token in tokens]
        starts = np.cumsum([0, *map(len, spelt)])
        found: dict[int, str] = {}
        for demand in held.constraints.demands:
            if UNKNOWN.encode() not in demand.pattern.text:
                continue
            spans = []
            for start in demand.pattern.scan(b"".join(spelt)).places:
                end = start + len(demand.pattern.text)
                within = range(*np.searchsorted(starts, [start, end]).tolist())
                places = [place for place in range(max(0, within.start - 1), within.stop) if tokens[place] == UNK]
                if not found.keys() & places:
                    spans.append(places)
            texts = {term.text for term in demand.terms}
            for term, places in _matched([term for term in held.terms if term.text in texts], spans, trace, held.text):
                encoded = self._spelling.tokenizer.encode(term.text)
                units = zip(self._spelling.units(term.text), encoded, strict=True)
                found |= zip(places, [unit for unit, token in units if token == UNK], strict=True)
        return found

    def _check(self, held: Held, written: str) -> None:
        for demand in held.constraints.demands:
            for text in {term.text for term in demand.terms}:
                own = " ".join(text.split()) if self._spelling.kind == "words" else text
                pattern = Pattern(own.encode(), demand.pattern.left, demand.pattern.right)
                if len(pattern.scan(written.encode()).places) < sum(term.text == text for term in demand.terms):
                    raise ModelError(
                        f"{text!r} must occur in the translation of {held.text!r}, but the vocabulary cannot spell it, "
                        "and its place cannot be told from those of other terms. Leave one of them out."
                    )


def _matched(
    terms: Sequence[Term], spans: Sequence[list[int]], trace: AttentionTrace, source: str
) -> list[tuple[Term, list[int]]]:
    """Give each term the tokens that looked at it most; without attention, in order."""
    weights = np.zeros((len(terms), len(spans)))
    if trace.weights.shape[0] and trace.source_words:
        look, words = trace.look(), np.asarray(trace.source_words)
        for row, column in product(range(len(terms)), range(len(spans))):
            word = len(source[: terms[row].place + 1].split()) - 1
            weights[row, column] = look[np.ix_(spans[column], np.flatnonzero(words == word))].sum()
    chosen: dict[int, int] = {}
    ranked = sorted(np.ndindex(*weights.shape), key=lambda pair: -weights[pair])
    for row, column in ranked:
        if row not in chosen and column not in chosen.values():
            chosen[row] = column
    return [(terms[row], spans[column]) for row, column in chosen.items()]
