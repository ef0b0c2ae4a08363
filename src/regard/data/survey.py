"""Statistics of a corpus: number and length of pairs, vocabulary, how much of a target is copied.

A training plan is made from these numbers alone (`regard.training.plan_rules`).
"""

import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from random import Random
from typing import Final

from regard.data.pair import Pair

SAMPLE: Final = 20_000
"""Pairs that are analysed in detail: a random sample of this size."""
COMPARED: Final = 1_000
"""Pairs of the sample whose two sides are compared character by character, evenly spaced."""
_LONGEST: Final = 2_000
"""Maximum characters of a text that are analysed."""
_COMPARED_LONGEST: Final = 100
_REMEMBERED: Final = 2_000_000
"""Maximum distinct sources that are counted exactly."""
_UNSPACED: Final = ("CJK", "HIRAGANA", "KATAKANA", "THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
"""Scripts written without spaces between words, as names of Unicode characters begin."""


@dataclass(frozen=True)
class SurveyedSide:
    """Statistics of the sources or of the targets."""

    characters: float
    """Mean characters per text."""
    longest: int
    """Characters of the longest text."""
    words: float
    """Mean words per text, split at white space."""
    most_words: int
    """Maximum words of a text."""
    alphabet: int
    """Distinct characters."""
    types: int
    """Distinct words."""
    frequent: int
    """Distinct frequent words, which occur in at least one text in 400, and at least 20 times."""
    spelled: float
    """Share of texts with at most one word that is not frequent: a lemma with its features, a pronunciation."""
    units: float
    """Mean number per text of frequent words plus characters of all other words."""
    unspaced: bool
    """Whether it is mostly in a script without spaces between words."""


@dataclass(frozen=True)
class Survey:
    """A corpus in numbers."""

    pairs: int
    sources: int
    """Distinct sources."""
    ambiguous: float
    """Share of the sources that have several distinct targets (in the sample)."""
    identical: float
    """Share of the pairs whose target is the source."""
    copied: float
    """Mean share of a target's characters that occur in the source in the same order."""
    copied_words: float
    """Mean share of a target's words that occur in the source and have at least four characters."""
    shortest: int
    """Characters of the shortest pair, on its longer side."""
    paired: bool
    """Whether there are sources at all."""
    targets: int
    """Different targets (in the part that is looked at closely)."""
    source: SurveyedSide
    target: SurveyedSide


def survey(corpus: Iterable[Pair], seed: int = 1) -> Survey:
    """Survey a corpus in one pass; the same corpus and seed give the same numbers."""
    random, kept = Random(seed), list[Pair]()
    known: set[int] = set()
    longest, most_words, pairs, identical, paired = [0, 0], [0, 0], 0, 0, False
    shortest: int | None = None
    for pairs, pair in enumerate(corpus, start=1):
        place = len(kept) if pairs <= SAMPLE else int(random.random() * pairs)
        if place < SAMPLE:
            kept[place : place + 1] = [Pair(pair.source[:_LONGEST], pair.target[:_LONGEST])]
        if len(known) < _REMEMBERED:
            known.add(_stand_for(pair.source))
        for side, text in enumerate((pair.source, pair.target)):
            if len(text) > longest[side]:
                longest[side] = len(text)
            if len(text) > 2 * most_words[side]:  # else it cannot have more words
                most_words[side] = max(most_words[side], len(text.split()))
        length = max(len(pair.source), len(pair.target))
        shortest = length if shortest is None else min(shortest, length)
        identical += pair.source == pair.target
        paired = paired or bool(pair.source)
    compared = kept[:: -(-len(kept) // COMPARED) or 1]
    return Survey(
        pairs=pairs,
        sources=len(known),
        ambiguous=_ambiguous(kept),
        identical=identical / max(pairs, 1),
        copied=_mean([_copied(pair) for pair in compared]),
        copied_words=_mean([_copied_words(pair) for pair in compared]),
        shortest=shortest or 0,
        paired=paired,
        targets=len({pair.target for pair in kept}),
        source=_side([pair.source for pair in kept], longest[0], most_words[0]),
        target=_side([pair.target for pair in kept], longest[1], most_words[1]),
    )


def frequent_words(counts: Counter[str], texts: int) -> set[str]:
    """Return the words that occur at least once per 400 texts, and at least 20 times (5 times in few texts)."""
    least = max(min(20, max(5, texts // 50)), texts // 400)
    return {word for word, count in counts.items() if count >= least}


def _side(texts: Sequence[str], longest: int, most_words: int) -> SurveyedSide:
    counts = Counter[str]()
    for text in texts:
        counts.update(text.split())
    frequent, letters = frequent_words(counts, len(texts)), Counter[str]()
    for word, count in counts.items():
        for character in word:
            letters[character] += count
    words, spelled, units = list[int](), list[bool](), list[int]()
    for text in texts:  # split once more: the words of all texts at once would take too much memory
        found = text.split()
        rare = [word for word in found if word not in frequent]
        words.append(len(found))
        spelled.append(len(rare) <= 1)
        units.append(len(found) + sum(map(len, rare)))
    unspaced = sum(count for character, count in letters.items() if _is_unspaced(character))
    return SurveyedSide(
        characters=_mean([len(text) for text in texts]),
        longest=longest,
        words=_mean(words),
        most_words=most_words,
        alphabet=len(letters),
        types=len(counts),
        frequent=len(frequent),
        spelled=_mean(spelled),
        units=_mean(units),
        unspaced=unspaced > 0.3 * letters.total(),
    )


def _is_unspaced(character: str) -> bool:
    return character > "\u0e00" and unicodedata.name(character, "").startswith(_UNSPACED)


def _stand_for(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def _ambiguous(pairs: Sequence[Pair]) -> float:
    targets: dict[str, set[str]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, set()).add(pair.target)
    return _mean([len(found) > 1 for found in targets.values()])


def _copied(pair: Pair) -> float:
    """Return the longest common subsequence over the length of the target."""
    source, target = pair.source[:_COMPARED_LONGEST], pair.target[:_COMPARED_LONGEST]
    row = [0] * (len(source) + 1)
    for character in target:
        corner = 0
        for place, other in enumerate(source, start=1):
            above = row[place]
            row[place] = corner + 1 if character == other else max(above, row[place - 1])
            corner = above
    return row[-1] / max(len(target), 1)


def _copied_words(pair: Pair) -> float:
    source, target = set(pair.source.split()), pair.target.split()
    return sum(len(word) >= 4 and word in source for word in target) / max(len(target), 1)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / max(len(values), 1)
