"""Random choices that are the same with every release of NumPy: only raw bits are drawn."""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

_AT_ONCE: Final = 64


class PortableRandom:
    """A stream of choices that is a pure function of its key."""

    def __init__(self, *key: int) -> None:
        self._bits = np.random.PCG64([part % 2**64 for part in key])
        self._drawn: list[int] = []

    def random(self) -> float:
        """Draw from 0 up to, but not including, 1."""
        if not self._drawn:
            self._drawn = self._bits.random_raw(_AT_ONCE).tolist()
        return (self._drawn.pop() >> 11) * 2.0**-53

    def between(self, low: float, high: float) -> float:
        """Draw a number of a range, each as likely."""
        return low + (high - low) * self.random()

    def happens(self, probability: float) -> bool:
        """Say yes with a probability."""
        return self.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Draw one, each as likely."""
        return options[int(self.random() * len(options))]

    def weighted(self, options: Sequence[tuple[T, float]]) -> T:
        """Draw one, as likely as its weight says."""
        left = self.random() * sum(weight for _, weight in options)
        for option, weight in options:
            left -= weight
            if left < 0:
                return option
        return options[-1][0]

    def shuffled(self, options: Sequence[T]) -> list[T]:
        """Return all in an order of chance."""
        return [option for _, option in sorted(((self.random(), i), option) for i, option in enumerate(options))]

    def noise(self, size: int) -> NDArray[Any]:
        """Draw so many bytes."""
        words = self._bits.random_raw((size + 7) // 8)
        return np.asarray(words).astype("<u8").view(np.uint8)[:size]
