"""The formulas of Wu et al. 2016, by hand."""

import math

import pytest
import torch

from regard.decoding.penalties import best_length_penalty, coverage_penalty, length_penalty


def test_length_penalty_by_hand():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == 2.0
    assert length_penalty(19, 0.5) == 2.0
    assert length_penalty(31, 0.0) == 1.0


def test_coverage_penalty_by_hand():
    coverage = torch.tensor([[0.5, 2.0, 0.25, 0.7]])
    real = torch.tensor([[True, True, True, False]])
    expected = 0.2 * (math.log(0.5) + 0.0 + math.log(0.25))
    torch.testing.assert_close(coverage_penalty(coverage, real, 0.2), torch.tensor([expected]))


def test_a_source_word_never_looked_at_costs_much_but_not_everything():
    (penalty,) = coverage_penalty(torch.zeros(1, 1), torch.ones(1, 1, dtype=torch.bool), 1.0)
    assert -100 < float(penalty) < -80


@pytest.mark.parametrize("alpha", [-1.0, -0.2, 0.0, 0.6, 1.0, 3.0])
def test_no_length_still_to_come_has_a_larger_penalty(alpha):
    limits = torch.tensor([6, 11, 29])
    for length in range(1, 6):
        best = best_length_penalty(length, limits, alpha)
        every = [max(length_penalty(n, alpha) for n in range(length + 1, limit + 1)) for limit in limits.tolist()]
        torch.testing.assert_close(best, torch.tensor(every))
