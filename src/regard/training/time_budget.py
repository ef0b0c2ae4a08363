"""Training for so many minutes: how many steps are left, when to validate, when to end.

All of it follows from the seconds used and from `Pace`, which is saved with every checkpoint. So what a step does is
still a function of what is recorded, and a run that is resumed goes on with the plan it had.
"""

import math
import statistics
import time
from collections import deque
from dataclasses import replace

from regard.config import Config
from regard.errors import ConfigError
from regard.training.run_state import Pace

FOREVER = 1_000_000
"""Epochs, where something else is to end a run."""
VALIDATIONS = 10
"""How many validations there are if they are cheap."""
SHARE = 0.12
"""The part of the time that validations may take; where ten would take more, there are fewer."""
RECENT, LEAST = 64, 3
"""A step's time is the mean of so many of the last, and of so many at least…"""
OUTLIER = 4.0
"""…without those above so many times their lower quartile."""
MARGIN = 1.1
"""What the last validation and save may take, in times of what they took before."""


BY_TIME = tuple(f"training.{name}" for name in ("minutes", "epochs", "steps", "patience", "schedule", "validate_every"))
"""Settings that `within` sets."""


def now() -> float:
    """Return the time, in seconds since some moment."""
    return time.perf_counter()


def within(config: Config, minutes: float, resume: bool = False) -> Config:
    """Let time alone be the budget: cosine to its end, validations as it allows, no limit of epochs, steps, patience.

    A run that is resumed keeps what is no question of length.
    """
    if not 0 < minutes < math.inf:
        raise ConfigError(f"--minutes is {minutes:g}; it must be above 0 and finite.")
    training = replace(config.training, minutes=minutes, epochs=FOREVER, steps=0, patience=0)
    if not resume:
        training = replace(training, schedule="cosine", validate_every=0)
    return replace(config, training=training)


class Budget:
    """The time of a run, and what it is spent on."""

    def __init__(self, minutes: float, pace: Pace) -> None:
        self.minutes, self.pace = minutes, pace
        self.seconds = 60 * minutes
        self.validates = False
        """Whether a validation is due."""
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._first: float | None = None

    @property
    def deadline(self) -> float:
        """When the last step must have been made, so that a validation and a save still fit."""
        return self.seconds - MARGIN * self.pace.validation

    @property
    def period(self) -> float:
        """Seconds from one validation to the next."""
        return max((self.seconds - self.pace.before) / VALIDATIONS, self.pace.validation / SHARE)

    def begin(self, seconds: float, step: int, used: float) -> None:
        """Count what it took to open the corpus, before a run began or went on after `step`; `used` is without that."""
        self.pace.before += seconds
        if step:
            self.plan(step, used + self.pace.before)
        else:
            self.pace.validated = self.pace.before

    def took(self, seconds: float) -> None:
        """Learn what a step took; the first one of a process, which warms up, counts only until there are others."""
        if self._first is None:
            self._first = seconds
        else:
            self._recent.append(seconds)
        if len(self._recent) >= LEAST:
            most = OUTLIER * sorted(self._recent)[len(self._recent) // 4]
            self.pace.step = statistics.fmean(one for one in self._recent if one <= most)
        elif not self.pace.planned:
            self.pace.step = min(self._first, *self._recent) if self._recent else self._first

    def plan(self, step: int, used: float) -> None:
        """Decide, after a step was made and so many seconds used, what comes next."""
        pace, left = self.pace, self.deadline - used
        pace.used_up = self.minutes if left < (pace.step or (used - pace.before) / step) else 0.0
        between = self.period - pace.validation
        self.validates = used - pace.validated >= between and left >= between / 2
        if pace.planned or len(self._recent) >= LEAST:
            work = max(left, 0.0) * (1 - pace.validation / self.period)
            pace.planned = step if pace.used_up else step + max(int(work / max(pace.step, 1e-9)), 1)

    def validated(self, seconds: float, used: float) -> None:
        """Learn what a validation, with its save, took until now."""
        self.pace.validation, self.pace.validated = seconds, used
        self.validates = False
