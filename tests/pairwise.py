"""Few combinations in which every two choices meet: what a sweep takes instead of the whole product."""

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Combination = dict[str, Any]
TRIES = 30
"""Combinations drawn for each that is taken."""


def pairs_in(combination: Combination) -> set[tuple[int, ...]]:
    """Return the pairs of choices that meet in a combination, by their places."""
    return set(itertools.combinations(enumerate(combination.values()), 2))


def pairwise(
    factors: Mapping[str, Sequence[Any]], has_meaning: Callable[[Combination], bool] = lambda one: True, seed: int = 1
) -> list[Combination]:
    """Choose combinations, the same every time, such that every two choices that can meet do meet in one of them.

    It goes from pair to pair that has not met yet, and of some combinations with it takes the one where most others
    meet too (Cohen et al. 1997, "The AETG system"). A pair is left out only where no combination with it has a meaning.
    """
    chance, names, found = random.Random(seed), list(factors), []
    missing = {pair: None for two in itertools.combinations(names, 2) for pair in _pairs(factors, names, two)}
    while missing:
        fixed = next(iter(missing))
        of_pair = {**{name: list(choices) for name, choices in factors.items()}, **{names[i]: [v] for i, v in fixed}}
        drawn = ({name: chance.choice(choices) for name, choices in of_pair.items()} for _ in range(TRIES))
        fitting = [one for one in drawn if has_meaning(one)]
        if not fitting:
            every = (dict(zip(names, values, strict=True)) for values in itertools.product(*of_pair.values()))
            fitting = list(itertools.islice(filter(has_meaning, every), 1))
        if not fitting:
            del missing[fixed]
            continue
        best = max(fitting, key=lambda one: len(pairs_in(one) & missing.keys()))
        found.append(best)
        for pair in pairs_in(best):
            missing.pop(pair, None)
    return found


def _pairs(factors, names, two):
    one, other = (names.index(name) for name in two)
    for first, second in itertools.product(*(factors[name] for name in two)):
        yield ((one, first), (other, second))
