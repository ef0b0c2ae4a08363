"""Toy tasks for tests and teaching: copy, reverse, and conversion of dates to ISO 8601.

The split of a pair is decided by a hash of its content, so that splits never share content, whatever the seeds and
sizes.
"""

import datetime
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from random import Random

from regard.data.pair import Alignment, Pair
from regard.errors import DataError, did_you_mean

_SYLLABLES = tuple(first + second for first in "bdfgklmnprst" for second in "aeiou")
_SHARES = {"train": range(2, 10), "valid": range(1), "test": range(1, 2)}
"""The tenths of all content in each split."""


def copy(split: str, size: int, seed: int) -> Iterator[Pair]:
    """Copy two to twelve made-up words."""
    return _made("copy", _copied, split, size, seed)


def reverse(split: str, size: int, seed: int) -> Iterator[Pair]:
    """Reverse two to twelve made-up words."""
    return _made("reverse", _reversed, split, size, seed)


def dates(split: str, size: int, seed: int) -> Iterator[Pair]:
    """Days from 1900 to 2099 as people write them → ISO 8601: `Friday, 3 May 2024` → `2024-05-03`.

    Every format is unambiguous: with dots (03.05.2024) the day comes first; with slashes and the year last (5/3/2024),
    the month does, as in the USA; two-digit years follow POSIX (69 to 99: 1969 to 1999, 00 to 68: 2000 to 2068). All
    formats of one day are in the same split.
    """
    return _made("dates", _dated, split, size, seed)


def _made(name: str, make: Callable[[Random], Pair], split: str, size: int, seed: int) -> Iterator[Pair]:
    """Yield pairs of a split. The sequence does not depend on the size: a smaller one is a prefix of a larger one."""
    if split not in _SHARES:
        raise DataError(
            f"No split named {split!r} in {name}.{did_you_mean(split, _SHARES)} It has {', '.join(_SHARES)}."
        )
    share = _SHARES[split]
    random = Random(f"{name} {seed}")
    pairs = iter(lambda: make(random), None)
    return islice((pair for pair in pairs if _tenth(pair.target) in share), size)


def _tenth(content: str) -> int:
    return blake2b(content.encode(), digest_size=4).digest()[0] * 10 // 256


def _words(random: Random) -> list[str]:
    return ["".join(random.choices(_SYLLABLES, k=random.randint(1, 2))) for _ in range(random.randint(2, 12))]


def _copied(random: Random) -> Pair:
    words = _words(random)
    links = frozenset((i, i) for i in range(len(words)))
    return Pair(" ".join(words), " ".join(words), Alignment(links, links))


def _reversed(random: Random) -> Pair:
    words = _words(random)
    links = frozenset((i, len(words) - 1 - i) for i in range(len(words)))
    return Pair(" ".join(words), " ".join(reversed(words)), Alignment(links, links))


_MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = (
    "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth",
    "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth",
    "nineteenth", "twentieth", "twenty-first", "twenty-second", "twenty-third", "twenty-fourth", "twenty-fifth",
    "twenty-sixth", "twenty-seventh", "twenty-eighth", "twenty-ninth", "thirtieth", "thirty-first",
)  # fmt: skip
_FIRST_DAY = datetime.date(1900, 1, 1).toordinal()
_LAST_DAY = datetime.date(2099, 12, 31).toordinal()
_STYLES = (
    "{d} {month} {year}",
    "{d} {mon} {year}",
    "{nth} {month} {year}",
    "{month} {d}, {year}",
    "{month} {nth}, {year}",
    "{mon} {d}, {year}",
    "{mon} {dd} {year}",
    "{weekday}, {d} {month} {year}",
    "{weekday}, {month} {d}, {year}",
    "{weekday} the {nth} of {month} {year}",
    "{day3}, {dd} {mon} {year}",
    "the {nth} of {month}, {year}",
    "the {ordinal} of {month}, {year}",
    "{month} the {ordinal}, {year}",
    "{year}, {month} {d}",
    "{dd}.{mm}.{year}",
    "{d}.{m}.{year}",
    "{year}/{mm}/{dd}",
    "{year}{mm}{dd}",
    "{m}/{d}/{year}",
    "{mm}/{dd}/{year}",
    "{dd}-{mon}-{year}",
)
_SHORT_STYLES = ("{d}-{mon}-{yy}", "{m}/{d}/{yy}", "{dd}.{mm}.{yy}", "{mon} {d} '{yy}")


def _dated(random: Random) -> Pair:
    day = datetime.date.fromordinal(random.randint(_FIRST_DAY, _LAST_DAY))
    two_digits_will_do = 1969 <= day.year <= 2068
    style = random.choice(_STYLES + _SHORT_STYLES if two_digits_will_do else _STYLES)
    written = _write(day, style)
    case = random.choice((str, str, str.lower, str.upper))
    return Pair(case(written), day.isoformat())


def _write(day: datetime.date, style: str) -> str:
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    ending = "th" if day.day in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(day.day % 10, "th")
    return style.format(
        d=day.day, dd=f"{day.day:02}", nth=f"{day.day}{ending}", ordinal=_ORDINALS[day.day - 1],
        m=day.month, mm=f"{day.month:02}", month=month, mon=month[:3],
        weekday=weekday, day3=weekday[:3], year=day.year, yy=f"{day.year % 100:02}",
    )  # fmt: skip
