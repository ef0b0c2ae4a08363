"""The tiny tasks: right by their own definition, the same from the same seed, and with splits that share nothing."""

import datetime
import re
from itertools import combinations

import pytest

from regard.data import toy_tasks
from regard.data.builtin_corpora import corpora
from regard.data.corpus import open_corpus
from regard.errors import DataError

TINY = ["reverse", "copy", "dates"]
EMBEDDED = [*TINY, "phrasebook"]


def made(name, split="train", size=500, seed=1):
    return list(corpora[name](split, size, seed))


@pytest.mark.parametrize("name", TINY)
def test_splits_share_no_content(name):
    sides = [{text for pair in made(name, split, seed=seed) for text in (pair.source, pair.target)}
             for seed, split in enumerate(("train", "valid", "test"))]  # fmt: skip
    for first, second in combinations(sides, 2):
        assert not first & second


@pytest.mark.parametrize("name", TINY)
def test_a_smaller_corpus_begins_a_larger_one(name):
    assert made(name, size=20) == made(name, size=500)[:20]
    assert made(name, seed=1) != made(name, seed=2)


@pytest.mark.parametrize("name", TINY)
def test_unknown_split(name):
    with pytest.raises(DataError) as caught:
        made(name, "vald")
    assert str(caught.value) == f"No split named 'vald' in {name}. Did you mean 'valid'? It has train, valid, test."


def test_reverse_and_copy():
    assert all(pair.target.split() == pair.source.split()[::-1] for pair in made("reverse"))
    assert all(pair.target == pair.source for pair in made("copy"))


@pytest.mark.parametrize("name", ["reverse", "copy"])
def test_links_join_equal_words(name):
    for pair in made(name):
        source, target = pair.source.split(), pair.target.split()
        assert len(pair.alignment.sure) == len(source) == len(target)
        assert all(source[i] == target[j] for i, j in pair.alignment.sure)


DAY = datetime.date(2024, 5, 3)


@pytest.mark.parametrize(
    ("style", "written"),
    [
        ("{d} {month} {year}", "3 May 2024"),
        ("{month} {nth}, {year}", "May 3rd, 2024"),
        ("{weekday}, {d} {month} {year}", "Friday, 3 May 2024"),
        ("{dd}.{mm}.{year}", "03.05.2024"),
        ("{year}/{mm}/{dd}", "2024/05/03"),
        ("{m}/{d}/{year}", "5/3/2024"),
        ("the {ordinal} of {month}, {year}", "the third of May, 2024"),
        ("{d}-{mon}-{yy}", "3-May-24"),
    ],
)
def test_styles(style, written):
    assert style in toy_tasks._STYLES + toy_tasks._SHORT_STYLES
    assert toy_tasks._write(DAY, style) == written


def test_ordinals():
    written = [toy_tasks._write(DAY.replace(day=day), "{nth}") for day in (1, 2, 3, 4, 11, 12, 13, 21, 22, 23, 30, 31)]
    assert written == ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "22nd", "23rd", "30th", "31st"]


def test_what_is_written_has_one_reading():
    """No style writes two days alike, in any case, nor does one style write what another one does of another day."""
    readings = {}
    for ordinal in range(datetime.date(2001, 1, 1).toordinal(), datetime.date(2004, 1, 1).toordinal()):
        day = datetime.date.fromordinal(ordinal)
        for style in toy_tasks._STYLES + toy_tasks._SHORT_STYLES:
            readings.setdefault(toy_tasks._write(day, style).lower(), set()).add(day)
    assert {len(days) for days in readings.values()} == {1}


def test_weekdays_are_right():
    for pair in made("dates", size=2000):
        named = re.match(r"(?i)([a-z]+day)\b", pair.source)
        if named:
            assert named[1].lower() == f"{datetime.date.fromisoformat(pair.target):%A}".lower()


def test_two_digits_are_posix_years():
    """As strptime reads them: 69 to 99 are 1969 to 1999, 00 to 68 are 2000 to 2068."""
    short = [pair for pair in made("dates", size=4000) if re.fullmatch(r"(?i)\d+-[a-z]{3}-\d\d", pair.source)]
    assert len(short) > 20
    for pair in short:
        assert datetime.datetime.strptime(pair.source, "%d-%b-%y").date().isoformat() == pair.target


def test_all_embedded_names_open():
    assert set(EMBEDDED) == set(corpora)
    for name in EMBEDDED:
        assert len(list(open_corpus((f"{name}:3",)))) == 3
        assert list(open_corpus((f"{name}:3",), seed=2)) == made(name, size=3, seed=2)
