"""F1 of classes, against what one works out by hand."""

import numpy as np
import pytest

from regard.evaluation.classification import f1_of_each, macro_f1

RIGHT, CHOSEN = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 2, 2])


def test_f1_of_each_class_and_their_mean():
    # Precision and recall: 2/2 and 2/3; 1/2 and 1/2; 1/2 and 1/1.
    each = [2 / (1 + 3 / 2), 1 / 2, 2 / (2 + 1)]
    assert f1_of_each(RIGHT, CHOSEN, 3) == pytest.approx(each)
    assert macro_f1(RIGHT, CHOSEN, 3) == pytest.approx(sum(each) / 3)


def test_a_class_that_is_never_found_counts_as_zero_and_one_that_is_not_there_does_not_count():
    assert f1_of_each(np.array([0, 3]), np.array([0, 0]), 5) == pytest.approx(
        [2 / 3, np.nan, np.nan, 0.0, np.nan], nan_ok=True
    )
    assert macro_f1(np.array([0, 3]), np.array([0, 0]), 5) == pytest.approx(1 / 3)
    assert macro_f1(np.array([2, 2]), np.array([2, 2]), 5) == 1.0


def test_it_is_the_mean_of_harmonic_means_of_random_answers():
    random = np.random.default_rng(1)
    right, chosen = random.integers(0, 7, (2, 211))
    found = []
    for place in range(7):
        hits = int(((right == place) & (chosen == place)).sum())
        precision, recall = hits / (chosen == place).sum(), hits / (right == place).sum()
        found.append(2 * precision * recall / (precision + recall))
    assert macro_f1(right, chosen, 7) == pytest.approx(sum(found) / 7)
