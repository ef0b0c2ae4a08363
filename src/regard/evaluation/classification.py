"""Scores of classifiers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def f1_of_each(right: NDArray[Any], chosen: NDArray[Any], classes: int) -> NDArray[np.float64]:
    """Return the F1 of each class: the harmonic mean of precision and recall, and 0 where nothing of it was found.

    NaN for a class that is neither there nor was chosen.
    """
    hits = np.bincount(right[right == chosen], minlength=classes)
    either = np.bincount(right, minlength=classes) + np.bincount(chosen, minlength=classes)
    with np.errstate(invalid="ignore"):
        return np.asarray(2 * hits / either, np.float64)


def macro_f1(right: NDArray[Any], chosen: NDArray[Any], classes: int) -> float:
    """Return the mean of the F1 of all classes that are there or were chosen: each counts alike, however rare."""
    return float(np.nanmean(f1_of_each(right, chosen, classes)))
