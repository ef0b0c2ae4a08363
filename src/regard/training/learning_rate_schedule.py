"""The learning rate as a pure function of the step and the validations so far: nothing of it needs saving.

A schedule maps a `ScheduleStep` to the factor that `training.learning_rate` is multiplied by. Steps count from 1. All
of them start with `warmup` steps of linear growth.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.config import TrainingConfig
from regard.registry import Registry


@dataclass(frozen=True)
class ScheduleStep:
    """All that a learning rate may depend on."""

    step: int
    """The step about to be made, from 1."""
    total: int
    """How many steps the whole run is planned to make; with a time budget, by what steps have taken so far."""
    scores: Sequence[tuple[float, float]] = ()
    """How good the validations so far were: the score, and what decides between equal ones; greater is better."""


WARMUP_PART = 10
"""With a time budget the warm-up takes one of so many parts at most."""
Schedule = Callable[[ScheduleStep, TrainingConfig], float]

schedules: Registry[Schedule] = Registry("schedule", "schedules")


def learning_rate(moment: ScheduleStep, config: TrainingConfig) -> float:
    """Return the rate of a step."""
    return config.learning_rate * schedules[config.schedule](moment, config)


def count_plateaus(scores: Sequence[tuple[float, float]], patience: int) -> int:
    """Count how often `patience` validations in a row brought no better score; the count of the row then restarts."""
    best, waited, count = (-math.inf, -math.inf), 0, 0
    for score in scores:
        waited = 0 if score > best else waited + 1
        best = max(best, score)
        if waited == max(patience, 1):
            waited, count = 0, count + 1
    return count


def depends_on_total_steps(settings: TrainingConfig) -> bool:
    """Say whether steps depend on how many are planned: a rate or a ratio of teacher forcing that falls until then.

    Where minutes limit, they depend on the time they take as well, so that no other run is gone on with bit for bit.
    """
    if settings.minutes:
        return False
    forced = settings.teacher_forcing >= 1 or settings.teacher_forcing_schedule == "constant"
    return settings.schedule == "cosine" or not forced


@schedules.register("constant")
def constant(moment: ScheduleStep, config: TrainingConfig) -> float:
    """Stay at the full rate after the warm-up."""
    return _warmup(moment, config)


@schedules.register("inverse-sqrt")
def inverse_sqrt(moment: ScheduleStep, config: TrainingConfig) -> float:
    """Fall with the inverse square root of the step after the warm-up (Vaswani et al. 2017, equation 3).

    Differs from the paper: the factor is 1 at the end of the warm-up, so the rate is not tied to the model's width.
    """
    return min(_warmup(moment, config), math.sqrt(max(warmup_steps(moment.total, config), 1) / moment.step))


@schedules.register("cosine")
def cosine(moment: ScheduleStep, config: TrainingConfig) -> float:
    """Fall to zero at the last step along half a cosine (Loshchilov & Hutter 2017, equation 5, without restarts)."""
    warmup = warmup_steps(moment.total, config)
    if moment.step <= warmup:
        return _warmup(moment, config)
    gone = (moment.step - warmup) / max(moment.total - warmup, 1)
    return 0.5 * (1 + math.cos(math.pi * min(gone, 1.0)))


@schedules.register("plateau")
def plateau(moment: ScheduleStep, config: TrainingConfig) -> float:
    """Multiply by `plateau_factor` whenever `plateau_patience` validations brought no better score."""
    drops = count_plateaus(moment.scores, config.plateau_patience)
    return _warmup(moment, config) * float(config.plateau_factor**drops)


def warmup_steps(total: int, config: TrainingConfig) -> int:
    """Return the steps of warm-up of a run of `total`: of what a time budget allows, a tenth at most."""
    return min(config.warmup, total // WARMUP_PART) if config.minutes else config.warmup


def _warmup(moment: ScheduleStep, config: TrainingConfig) -> float:
    warmup = warmup_steps(moment.total, config)
    return min(1.0, moment.step / warmup) if warmup else 1.0
