"""Corpora that have names.

Most of them the package makes itself: deterministic from a seed, split so that no split holds another's content.
"""

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from regard.data import toy_tasks
from regard.data.pair import Pair
from regard.registry import Registry

if TYPE_CHECKING:
    from regard.data.pictures import Pictures

Maker = Callable[[str, int, int], Iterator[Pair]]
"""Takes a split, the number of pairs and a seed."""

Opener = Callable[[str, str, int, int], "Pictures"]
"""Takes what was given (a name, which details may follow), a split, a seed, and the pixels a side (0: as there are)."""

corpora: Registry[Maker] = Registry("embedded corpus", "corpora")
pictured: Registry[Opener] = Registry("corpus of pictures", "corpora")

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


corpora.register("reverse")(toy_tasks.reverse)
corpora.register("copy")(toy_tasks.copy)
corpora.register("dates")(toy_tasks.dates)


@pictured.register("scenes")
def scenes(given: str, split: str, seed: int, pixels: int) -> "Pictures":
    """Pictures of coloured shapes, painted by us: captions, questions, boxes, masks; some combinations are held out."""
    from regard.data.pictures import open_scenes

    return open_scenes(given, split, seed, pixels)


@pictured.register("fashion-mnist")
def fashion_mnist(given: str, split: str, seed: int, pixels: int) -> "Pictures":
    """Grey pictures of clothes in ten classes, where Debian's package dataset-fashion-mnist has put them."""
    from regard.data.fashion_mnist import DEBIAN, FashionMnist

    return FashionMnist(DEBIAN, split, pixels)
