"""Schedules against their closed forms."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.config import TrainingConfig
from regard.errors import ConfigError
from regard.training.learning_rate_schedule import ScheduleStep, count_plateaus, learning_rate, schedules

SCORES = st.lists(st.integers(0, 5).map(float), max_size=20)


def ranked(scores):
    """Scores of validations whose losses are all the same."""
    return [(score, -1.0) for score in scores]


def factor(name, step, total=100, scores=(), **settings):
    return schedules[name](ScheduleStep(step, total, ranked(scores)), TrainingConfig(schedule=name, **settings))


@pytest.mark.parametrize("name", schedules)
@settings(deadline=None, max_examples=50)
@given(warmup=st.integers(0, 50), step=st.integers(1, 120), scores=SCORES)
def test_every_schedule_stays_between_zero_and_one(name, warmup, step, scores):
    assert 0 <= factor(name, step, scores=scores, warmup=warmup) <= 1


@pytest.mark.parametrize("name", schedules)
def test_warmup_is_linear_and_ends_at_the_full_rate(name):
    assert [factor(name, step, warmup=4) for step in (1, 2, 3, 4)] == [0.25, 0.5, 0.75, 1.0]


def test_constant():
    assert [factor("constant", step) for step in (1, 7, 1000)] == [1.0, 1.0, 1.0]


@settings(deadline=None, max_examples=50)
@given(st.integers(1, 1000), st.integers(1, 1000))
def test_inverse_sqrt(step, warmup):
    """Vaswani et al. 2017, equation 3, scaled to 1 at the end of the warm-up."""
    expected = math.sqrt(warmup) * min(step**-0.5, step * warmup**-1.5)
    assert factor("inverse-sqrt", step, warmup=warmup) == pytest.approx(expected)


def test_cosine():
    assert factor("cosine", 5, total=17, warmup=5) == 1.0
    assert factor("cosine", 11, total=17, warmup=5) == pytest.approx(0.5)
    assert factor("cosine", 8, total=17, warmup=5) == pytest.approx((1 + math.sqrt(0.5)) / 2)
    assert factor("cosine", 17, total=17, warmup=5) == pytest.approx(0.0)
    assert factor("cosine", 19, total=17, warmup=5) == pytest.approx(0.0)


def test_plateau_drops_when_validation_stalls():
    falls = [factor("plateau", 9, scores=[3.0, 4.0, 4.0, 2.0, 5.0, 5.0][:n], plateau_patience=1) for n in range(7)]
    assert falls == [1.0, 1.0, 1.0, 0.5, 0.25, 0.25, 0.125]
    assert factor("plateau", 9, scores=[3.0, 2.0, 1.0, 0.0], plateau_patience=3, plateau_factor=0.1) == 0.1


@settings(deadline=None, max_examples=50)
@given(SCORES, st.integers(1, 4))
def test_stalls_never_become_fewer_and_a_new_best_adds_none(scores, patience):
    counts = [count_plateaus(ranked(scores[:n]), patience) for n in range(len(scores) + 1)]
    assert all(after - before in (0, 1) for before, after in itertools.pairwise(counts))
    assert count_plateaus(ranked([*scores, 6.0]), patience) == counts[-1]
    assert counts[-1] <= max(len(scores) - 1, 0) // patience


def test_the_rate_is_the_factor_of_the_highest_rate():
    config = TrainingConfig(schedule="constant", learning_rate=0.3, warmup=10)
    assert learning_rate(ScheduleStep(5, 100), config) == 0.15


def test_an_unknown_schedule():
    with pytest.raises(ConfigError) as error:
        learning_rate(ScheduleStep(1, 1), TrainingConfig(schedule="cosin"))
    assert str(error.value) == "No schedule named 'cosin'. Did you mean 'cosine'? (regard list schedules shows all)"


def test_a_lower_loss_at_the_same_score_is_no_stall():
    assert count_plateaus([(0.0, -3.0), (0.0, -2.0), (0.0, -1.0)], patience=1) == 0
    assert count_plateaus([(0.0, -3.0), (0.0, -3.0)], patience=1) == 1
