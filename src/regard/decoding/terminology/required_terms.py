"""Required terms, from the source line that has them to the translation that must contain them."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from regard.data.special_tokens import UNK
from regard.data.tokenizers.base import Tokenizer, is_mark
from regard.decoding.terminology.constraint_state import Constraints
from regard.decoding.terminology.glossary import read_glossary
from regard.decoding.terminology.term_extraction import Term, Terms
from regard.decoding.terminology.term_tokens import Spelling
from regard.viz.trace import AttentionTrace

Glossary = Mapping[str, str] | str | Path
"""A mapping from source terms to target terms, or a file of them."""


class Held(NamedTuple):
    """The terms that the translation of one text must contain."""

    text: str
    """The source text."""
    terms: list[Term]
    constraints: Constraints
    """The constraints for the search; shared by all texts with the same terms."""


class RequiredTerms:
    """Finds the terms that translations must contain, and fills in those with tokens that the vocabulary lacks."""

    def __init__(self, tokenizer: Tokenizer, keep: str = "", glossary: Glossary | None = None) -> None:
        if isinstance(glossary, str | Path):
            glossary = read_glossary([str(glossary)])
        self._terms = Terms(keep, glossary)
        self._spelling = Spelling(tokenizer)
        self._known: dict[tuple[tuple[str | bool, ...], ...], Constraints] = {}

    def of(self, text: str) -> Held | None:
        """Return the terms that the translation of a text must contain; None if there are none."""
        terms = self._terms.of(text)
        if not terms:
            return None
        key = tuple((term.text, term.left, term.right, term.apart) for term in terms)
        if key not in self._known:
            self._known[key] = Constraints(terms, self._spelling)
        return Held(text, terms, self._known[key])

    def write(self, held: Held, tokens: Sequence[int], written: str, trace: AttentionTrace) -> str:
        """Replace unknown tokens in a translation by the parts of terms that they stand for."""
        if not held.constraints.has_unknown:
            return written
        unknown = held.constraints.unknown(tokens)
        changed = self._filled(tokens, written, self._attended(held, tokens, unknown, trace))
        return changed if held.constraints.are_held(changed) else self._filled(tokens, written, unknown)

    def _filled(self, tokens: Sequence[int], written: str, unknown: Sequence[str | None]) -> str:
        """Replace unknown tokens by their text."""
        body = [place for place, token in enumerate(tokens) if not is_mark(token)]
        if self._spelling.kind == "words":  # other unknown words may have been replaced already
            own = zip((unknown[place] for place in body), written.split(" "), strict=True)
            return " ".join(unit if text is None else text.removeprefix(" ") for text, unit in own)
        surfaces = self._spelling.tokenizer.surfaces(tokens)
        return "".join(unknown[place] or surfaces[place] for place in body)

    def _attended(
        self, held: Held, tokens: Sequence[int], unknown: list[str | None], trace: AttentionTrace
    ) -> list[str | None]:
        """Assign interchangeable unknown words to terms by attention to the source.

        Without attention they are in the order of the source.
        """
        if self._spelling.kind != "words":
            return unknown
        alike = [term for term in held.terms if self._spelling.tokenizer.encode(term.text) == [UNK]]
        texts = {f" {term.text}" for term in alike}
        places = [place for place, text in enumerate(unknown) if text in texts]
        weights = np.zeros((len(places), len(alike)))
        if trace.weights.shape[0]:
            look, words = trace.look(), np.asarray(trace.source_words)
            for row, column in product(range(len(places)), range(len(alike))):
                word = len(held.text[: alike[column].place + 1].split()) - 1
                weights[row, column] = look[places[row], words == word].sum()
        found = list(unknown)
        taken: set[int] = set()
        for row, column in sorted(np.ndindex(*weights.shape), key=lambda pair: -weights[pair]):
            if places and places[row] >= 0 and column not in taken:
                found[places[row]] = f" {alike[column].text}"
                places[row] = -1
                taken.add(column)
        return found
