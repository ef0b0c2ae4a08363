"""Corpora that the package makes itself: deterministic from a seed, split so that no split holds another's content."""

import re
from collections.abc import Callable, Iterator
from typing import Final

from regard.data import tasks
from regard.data.pair import Pair
from regard.registry import Registry

Maker = Callable[[str, int, int], Iterator[Pair]]
"""Takes a split, the number of pairs and a seed."""

corpora: Registry[Maker] = Registry("embedded corpus", "corpora")

SPLITS: Final = ("train", "valid", "test")
LENGTHS: Final = re.compile("[0-9]{1,3}-[0-9]{1,3}")
"""A split of sentences with so many source words, held out like the others: phrasebook has these."""
_DEFAULT_SIZES: Final = {"train": 40_000, "valid": 500, "test": 1_000}


def default_size(split: str) -> int:
    """How many pairs a split has where no number is given."""
    return _DEFAULT_SIZES.get(split, 1_000)


@corpora.register("phrasebook")
def phrasebook(split: str, size: int, seed: int) -> Iterator[Pair]:
    """English to French, from a grammar of our own, with gold alignments; `31-60` is a split by length."""
    from regard.data.phrasebook import generate, length_controlled  # large; only who asks for it pays

    if LENGTHS.fullmatch(split):
        shortest, longest = map(int, split.split("-"))
        return length_controlled(shortest, longest, size, seed)
    return generate(split, size, seed)


corpora.register("reverse")(tasks.reverse)
corpora.register("copy")(tasks.copy)
corpora.register("dates")(tasks.dates)
