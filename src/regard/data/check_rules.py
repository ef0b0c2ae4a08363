"""Rules for problems in the lines of a corpus; each returns the numbers of the lines that break it.

The rules adapt to the corpus: what is usual is measured on the corpus itself.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.line_features import CONTROLS, FAULTS, MANGLED, MARKED_UP, Features, Measured
from regard.data.raw_lines import EMPTY, MALFORMED

Places = NDArray[np.int64]


class Action(Enum):
    """What cleaning does with the lines that break a rule."""

    ALWAYS = "always"
    """Drop them: training would fail on them."""
    UNLESS_COMMON = "unless common"
    """Drop them, unless there are so many that they are probably intended."""
    ASKED = "asked"
    """Keep them, unless `--drop` names the rule."""
    NEVER = "never"
    """Keep them: reported for information only."""


@dataclass(frozen=True)
class Rule:
    """A kind of problem."""

    name: str
    told: str
    brief: str
    """A short description that follows a number of lines in a sentence."""
    action: Action


class Broken(NamedTuple):
    """The lines that break a rule."""

    rule: Rule
    places: Places
    """Counted from 0, in order."""
    told: str
    like: Places | None = None
    """For each of them, the line that it repeats."""


def _named(*given: Rule) -> dict[str, Rule]:
    return {rule.name: rule for rule in given}


RULES: Final = _named(
    Rule(MALFORMED, "cannot be read", "malformed", Action.ALWAYS),
    Rule(EMPTY, "a side has no text", "empty", Action.ALWAYS),
    Rule("control", "a control character, or the mark of a lost one", "with control characters", Action.UNLESS_COMMON),
    Rule("mojibake", "UTF-8 that was read as another encoding", "with broken letters", Action.UNLESS_COMMON),
    Rule("script", "mostly in another script than that side's", "in another script", Action.UNLESS_COMMON),
    Rule("ratio", "one side is far too long for the other", "of unlike lengths", Action.UNLESS_COMMON),
    Rule("long", "extremely long", "extremely long", Action.UNLESS_COMMON),
    Rule("identical", "target and source are the same, four words or more", "not translated", Action.UNLESS_COMMON),
    Rule("overlap", "the source is held out in", "held out elsewhere", Action.UNLESS_COMMON),
    Rule("duplicate", "the same pair came before", "repeated", Action.UNLESS_COMMON),
    Rule("markup", "a tag or an entity of HTML", "with markup", Action.ASKED),
    Rule("near-overlap", "the source is nearly held out in", "nearly held out elsewhere", Action.ASKED),
    Rule("near-duplicate", "came before but for case, punctuation, digits or spaces", "nearly repeated", Action.ASKED),
    Rule("same", "target and source are the same, up to three words", "the same on both sides", Action.NEVER),
    Rule("several", "have several targets", "with several targets", Action.NEVER),
)
SHORT: Final = 4
"""In words: a shorter text may well be the same in two languages (names, numbers, commands)."""
USUAL: Final = 0.05
"""A script is usual on a side if at least this share of its lines are mostly in it (and more than a few)."""
FEW_LINES: Final = 3
"""Up to this number, lines can be mistakes, however small the corpus is."""
FEWEST: Final = {"Latin": 8}
"""Minimum letters of a line to count as in another script; Latin names and products are quoted everywhere."""
FEW: Final = 2
_SIDES: Final = ("source", "target")
_DEVIATIONS: Final = 5.0
_TIMES: Final = 2.0
"""Lengths mismatch if they are off by this many robust standard deviations, and by this factor too. Chosen so that
nearly all of the 117 pairs dropped from 200,000 of Europarl are mismatched, and none of inflection tables, SCAN and
dates is dropped."""
_LONG: Final = 10
_LONG_AT_LEAST: Final = 1_000
_MIX: Final = np.int64(0x5851F42D4C957F2D)


class HeldOut(NamedTuple):
    """A held-out corpus, whose sources should not be in the training corpus."""

    name: str
    features: Features


def sound(features: Features) -> Places:
    """Return the well-formed lines."""
    return np.flatnonzero(features.fault == 0)


def broken(measured: Measured, paired: bool, held_out: Sequence[HeldOut] = ()) -> Iterator[Broken]:
    """Yield the result of every rule that applies to single lines."""
    features = measured.features
    for name in (MALFORMED, EMPTY):
        yield _simply(name, np.flatnonzero(features.fault == FAULTS.index(name)))
    within = sound(features)
    oddities = features.oddities[0] | features.oddities[1]
    for name, oddity in (("control", CONTROLS), ("mojibake", MANGLED), ("markup", MARKED_UP)):
        yield _simply(name, within[(oddities[within] & oddity) > 0])
    yield _foreign(measured, within, paired)
    yield _simply("long", within[_too_long(features.length[:, within])])
    if not paired:
        return
    yield _simply("ratio", within[_unlike(features.length[:, within])])
    same = features.exact[0, within] == features.exact[1, within]
    few = features.words[1, within] < SHORT
    yield _simply("identical", within[same & ~few])
    yield _simply("same", within[same & few])
    yield _several(features, within)
    for corpus in held_out:
        yield from _overlaps(features, within, corpus)


def repeated(features: Features, taken: NDArray[np.bool_]) -> Iterator[Broken]:
    """Yield duplicates; of equal lines one is kept, the first that no other rule has `taken`."""
    within = sound(features)
    exact, folded = _pairs(features.exact[:, within]), _pairs(features.folded[:, within])
    places, like = _later(exact, taken[within])
    yield Broken(RULES["duplicate"], within[places], RULES["duplicate"].told, within[like])
    again = np.isin(np.arange(len(within)), places)
    places, like = _later(folded, taken[within] | again)
    is_near = ~again[places]
    yield Broken(RULES["near-duplicate"], within[places[is_near]], RULES["near-duplicate"].told, within[like[is_near]])


def _simply(name: str, places: Places) -> Broken:
    return Broken(RULES[name], places, RULES[name].told)


def _pairs(hashes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.asarray(hashes[0] * _MIX ^ hashes[1])


def _later(hashes: NDArray[np.int64], last: NDArray[np.bool_]) -> tuple[Places, Places]:
    """Return the places whose hash occurred before, and where; places in `last` are ordered after all others."""
    order = np.lexsort((last, hashes))  # stable: of equals, the first place comes first
    ranked = hashes[order]
    first = np.concatenate(([True], ranked[1:] != ranked[:-1])) if len(ranked) else np.zeros(0, np.bool_)
    begins = np.flatnonzero(first)
    like = order[begins[first.cumsum() - 1]]
    places, like = order[~first], like[~first]
    back = np.argsort(places, kind="stable")
    return places[back], like[back]


def usual_scripts(measured: Measured, side: int) -> list[str]:
    """Return the usual scripts of a side, most frequent first."""
    features = measured.features
    within = sound(features)
    script = features.script[side, within][features.letters[side, within] > 0]
    counts = np.bincount(script, minlength=len(measured.scripts))
    fewest = max(1, min(int(counts.max(initial=0)), max(USUAL * len(script), FEW_LINES + 1)))
    ranked = np.argsort(-counts, kind="stable")
    usual = [measured.scripts[i] for i in ranked.tolist() if counts[i] >= fewest]
    # Japanese uses both: which one has more letters in a line means nothing.
    return [*usual, "Han"] if "Kana" in usual and "Han" not in usual else usual


def _foreign(measured: Measured, within: Places, paired: bool) -> Broken:
    features, names = measured.features, np.array(measured.scripts)
    fewest = np.array([FEWEST.get(name, FEW) for name in measured.scripts])
    same = features.exact[0, within] == features.exact[1, within]
    named = same & (features.words[1, within] < SHORT)
    found, usual = np.zeros(len(within), np.bool_), []
    for side in (0, 1) if paired else (1,):
        scripts = usual_scripts(measured, side)
        script, letters = features.script[side, within], features.letters[side, within]
        found |= ~np.isin(names, scripts)[script] & (letters >= fewest[script]) & ~named
        usual.append(f"{_SIDES[side] if paired else 'text'}: {' and '.join(scripts) or 'none'}")
    return Broken(RULES["script"], within[found], f"{RULES['script'].told} ({', '.join(usual)})")


def _unlike(length: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which pairs have mismatched lengths, by the model of Gale & Church (1993).

    A target's length varies around the expected one with a variance proportional to the length. The expectation is the
    median ratio of this corpus, the scale its median absolute deviation.
    """
    source, target = length.astype(np.float64)
    if not source.size:
        return np.zeros(0, np.bool_)
    expected = source * np.median(target / source)
    off = (target - expected) / np.sqrt((target + expected) / 2)
    spread = 1.4826 * np.median(np.abs(off - np.median(off)))
    factor = np.maximum(target / expected, expected / target)
    return np.asarray((np.abs(off - np.median(off)) > _DEVIATIONS * max(spread, 1.0)) & (factor > _TIMES))


def _too_long(length: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which lines are many times longer, in characters, than the 95th percentile."""
    found = np.zeros(length.shape[1], np.bool_)
    for side in length:
        if side.size:
            found |= side > max(_LONG_AT_LEAST, _LONG * float(np.quantile(side, 0.95, method="lower")))
    return found


def _several(features: Features, within: Places) -> Broken:
    sources, pairs = features.exact[0, within], _pairs(features.exact[:, within])
    _, first = np.unique(pairs, return_index=True)
    values, counts = np.unique(sources[first], return_counts=True)
    many = values[counts > 1]
    rule = RULES["several"]
    return Broken(rule, within[np.isin(sources, many)], f"{rule.told}: {len(many):,} sources")


def _overlaps(features: Features, within: Places, held_out: HeldOut) -> Iterator[Broken]:
    theirs, pairs = held_out.features, _pairs(features.exact[:, within])
    exact = np.isin(features.exact[0, within], theirs.exact[0])
    whole = np.isin(pairs, _pairs(theirs.exact))
    near = np.isin(features.folded[0, within], theirs.folded[0]) & ~exact
    near_whole = np.isin(_pairs(features.folded[:, within]), _pairs(theirs.folded))
    for name, found, with_target in (("overlap", exact, whole), ("near-overlap", near, near_whole)):
        both = np.count_nonzero(found & with_target)
        yield Broken(RULES[name], within[found], f"{RULES[name].told} {held_out.name} ({both:,} with its target)")
