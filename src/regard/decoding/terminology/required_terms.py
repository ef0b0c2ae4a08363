"""Terms that must survive, from the source line that calls for them to the text that holds them."""

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
"""Target terms by source terms, or the file that has them."""


class Held(NamedTuple):
    """What the translation of one text must hold."""

    text: str
    """The source that calls for it."""
    terms: list[Term]
    constraints: Constraints
    """What the search has to know; the same for all texts with the same terms."""


class RequiredTerms:
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
        key = tuple((term.text, term.left, term.right, term.apart) for term in terms)
        if key not in self._known:
            self._known[key] = Constraints(terms, self._spelling)
        return Held(text, terms, self._known[key])

    def write(self, held: Held, tokens: Sequence[int], written: str, trace: AttentionTrace) -> str:
        """Put terms into what was written, where tokens stand for what the vocabulary lacks."""
        if not held.constraints.has_unknown:
            return written
        unknown = held.constraints.unknown(tokens)
        changed = self._filled(tokens, written, self._attended(held, tokens, unknown, trace))
        return changed if held.constraints.are_held(changed) else self._filled(tokens, written, unknown)

    def _filled(self, tokens: Sequence[int], written: str, unknown: Sequence[str | None]) -> str:
        """Replace tokens by what they stand for."""
        body = [place for place, token in enumerate(tokens) if not is_mark(token)]
        if self._spelling.kind == "words":  # the others may have been replaced already
            own = zip((unknown[place] for place in body), written.split(" "), strict=True)
            return " ".join(unit if text is None else text.removeprefix(" ") for text, unit in own)
        surfaces = self._spelling.tokenizer.surfaces(tokens)
        return "".join(unknown[place] or surfaces[place] for place in body)

    def _attended(
        self, held: Held, tokens: Sequence[int], unknown: list[str | None], trace: AttentionTrace
    ) -> list[str | None]:
        """Let unknown words that could change places stand for what the model looked at when it wrote them.

        Without attention they come in the order of the source.
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
