"""Axes of plots drawn without matplotlib: positions of values, and round tick labels."""

import math
from dataclasses import dataclass

LOG_FROM = 8.0
"""Positive values that differ by this factor or more get a logarithmic axis, if allowed."""

TINY, NARROW = 1e-30, 1e-9
"""Values treated as 0; ranges, relative to their values, treated as empty."""


@dataclass(frozen=True)
class Axis:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    """The pixel of the lowest value."""
    end: float
    """The pixel of the highest value."""
    ticks: tuple[float, ...]
    log: bool = False

    def at(self, value: float) -> float:
        """Return the pixel of a value."""
        low, high, value = (math.log(one) if self.log else one for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)


def fit(low: float, high: float, start: float, end: float, *, count: int = 4, log: bool = False) -> Axis:
    """Return an axis for values from `low` to `high`, with about `count` round ticks that enclose them."""
    if log and low > TINY and high >= LOG_FROM * low:
        ticks = _powers(low, high, count)
        return Axis(ticks[0], ticks[-1], start, end, ticks, log=True)
    if max(abs(low), abs(high)) <= TINY:
        low, high = 0.0, 1.0
    elif high - low <= NARROW * max(abs(low), abs(high)):
        low, high = min(low, 0.0), max(high, 0.0)
    step = _round((high - low) / count)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    ticks = tuple(step * number for number in range(first, max(last, first + 1) + 1))
    return Axis(ticks[0], ticks[-1], start, end, ticks)


def label(value: float) -> str:
    """Format a tick as briefly as possible."""
    if value and abs(value) < 1e-3:
        return f"{value:.1e}".replace(".0e", "e").replace("e-0", "e-")
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.6g}"


def _round(step: float) -> float:
    """Return the smallest of 1, 2, 2.5 and 5 times a power of ten that is no smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(times * power for times in (1, 2, 2.5, 5, 10) if times * power >= step * (1 - 1e-9))


def _powers(low: float, high: float, count: int) -> tuple[float, ...]:
    """Return 1, 2 and 5 times powers of ten around a range, or fewer of these if there would be too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for times in ((1, 2, 5), (1, 3), (1,)):
        every = [time * 10.0**power for power in range(first, last + 1) for time in times]
        begin = max(number for number, one in enumerate(every) if one <= low * (1 + 1e-9))
        stop = min(number for number, one in enumerate(every) if one >= high * (1 - 1e-9))
        if stop - begin <= count + 1:
            break
    return tuple(every[begin : stop + 1])
