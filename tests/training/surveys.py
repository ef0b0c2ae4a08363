"""Surveys of corpora that there are not."""

from dataclasses import fields

from regard.data.survey import Survey, SurveyedSide

SIDE = SurveyedSide(
    characters=30.0,
    longest=60,
    words=6.0,
    most_words=12,
    alphabet=50,
    types=5000,
    frequent=300,
    spelled=0.1,
    units=20.0,
    unspaced=False,
)
SURVEY = Survey(
    pairs=50_000,
    sources=48_000,
    ambiguous=0.0,
    identical=0.0,
    copied=0.3,
    copied_words=0.0,
    shortest=5,
    paired=True,
    targets=15_000,
    source=SIDE,
    target=SIDE,
)
_OF_SIDE = {field.name for field in fields(SurveyedSide)}


def made_up(**changes):
    """Make a survey of sentences, but for what is changed; what belongs to a side is changed on both."""
    both = {name: value for name, value in changes.items() if name in _OF_SIDE}
    sides = {name: {**vars(SIDE), **both} for name in ("source", "target")}
    for name, value in changes.items():
        side, _, leaf = name.partition("_")
        if side in sides and leaf in _OF_SIDE:
            sides[side][leaf] = value
    rest = {name: value for name, value in changes.items() if name in vars(SURVEY)}
    return Survey(**{**vars(SURVEY), **{name: SurveyedSide(**side) for name, side in sides.items()}, **rest})


STRINGS = {"spelled": 0.95, "words": 1.5, "units": 12.0}
"""Forms of words."""
CLOSED = {"spelled": 1.0, "words": 6.0, "types": 20, "frequent": 20, "units": 6.0}
"""Commands."""
