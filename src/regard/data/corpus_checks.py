"""Check a corpus: statistics, and problems found by rules. Every line is read, and none is kept in memory.

Whether lines that break a rule are mistakes depends on the corpus. A few repeated pairs in a million are mistakes; if a
tenth of all lines are the same command, the repetition is intended. So if more than a share `COMMON` of all lines break
a rule, they are reported but not considered wrong (except that a few lines can be mistakes in any corpus, up to half of
it).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from regard.data.check_rules import FEW_LINES, RULES, Action, Broken, HeldOut, broken, repeated, sound
from regard.data.corpus import Corpus, FileCorpus
from regard.data.line_features import FAULTS, Features, Measured, measure
from regard.data.raw_lines import BLANK, RawLine, entries
from regard.data.region_features import counted
from regard.errors import ConfigError, did_you_mean

COMMON: Final = 0.05
"""A rule that a larger share of all lines breaks is not considered a problem."""
_ALIKE: Final = 0.4
"""If targets share at least this many of their words with their sources, a target equal to its source may be right."""
_EXAMPLES: Final = 3
_GLANCE: Final = 20_000


@dataclass(frozen=True)
class Example:
    """A line that breaks a rule."""

    line: int
    """Counted from 1."""
    source: str
    target: str
    why: str = ""
    """The error that training would raise."""
    like: int | None = None
    """The line that it repeats."""


@dataclass(frozen=True)
class Finding:
    """The lines that break one rule."""

    broken: Broken
    share: float
    taken: bool
    """Whether they are considered wrong and dropped by cleaning."""
    kept: str
    """The reason why they are kept."""
    examples: tuple[Example, ...] = ()

    @property
    def name(self) -> str:
        """The rule's name."""
        return self.broken.rule.name

    @property
    def count(self) -> int:
        """The number of lines that break it."""
        return len(self.broken.places)


@dataclass(frozen=True)
class CheckedSide:
    """Statistics of the texts of one side."""

    words: int
    longest: int
    """The maximum number of words in a line."""


@dataclass(frozen=True)
class Checked:
    """The result of checking a corpus."""

    name: str
    paired: bool
    lines: int
    """The number of lines, without blank lines of plain text."""
    pairs: int
    """The number of well-formed lines."""
    aligned: int
    source: CheckedSide
    target: CheckedSide
    findings: tuple[Finding, ...]
    """The rules that some line breaks."""

    @property
    def taken(self) -> dict[int, int]:
        """The lines considered wrong, counted from 0, each with the index of its first finding."""
        found: dict[int, int] = {}
        for i, finding in enumerate(self.findings):
            if finding.taken:
                for place in finding.broken.places.tolist():
                    found.setdefault(place, i)
        return found


@dataclass(frozen=True)
class Options:
    """Options of a check."""

    drop: tuple[str, ...] | None = None
    """The rules whose lines are considered wrong; None to decide by the corpus."""
    size: int | None = None
    """Check only the first lines, up to this number."""
    reverse: bool = False

    def __post_init__(self) -> None:
        droppable = [rule.name for rule in RULES.values() if rule.action is not Action.NEVER]
        for name in self.drop or ():
            if name not in droppable:
                raise ConfigError(
                    f"--drop: no rule {name!r}. There are {', '.join(droppable)}.{did_you_mean(name, droppable)}"
                )

    def read(self, corpus: Corpus) -> Iterator[RawLine]:
        """Yield the entries of a corpus, limited and reversed as the options say."""
        lines = (entry.reversed() for entry in entries(corpus)) if self.reverse else entries(corpus)
        return islice(lines, self.size)


def check(corpus: Corpus, against: Sequence[Corpus] = (), options: Options | None = None) -> Checked:
    """Check every line of a corpus, also for overlap with the held-out corpora `against`."""
    options = options or Options()
    held_out = [HeldOut(one.name, _only_pairs(measure(entries(one)).features)) for one in against]
    checked, found = _judge(corpus, measure(options.read(corpus)), held_out, options)
    places = {place for finding in found for place in _shown(finding.broken)}
    last = max(places, default=-1)
    lines = {n: entry for n, entry in enumerate(islice(options.read(corpus), last + 1)) if n in places}
    shown = [_with_examples(finding, lines) for finding in found]
    return Checked(**{**vars(checked), "findings": tuple(shown)})


def quick_check(corpus: Corpus) -> str:
    """Return one line on how many of the first pairs look wrong, and why; empty if none does.

    It takes a fraction of a second for any corpus size. Repeated pairs do no harm and are not reported.
    """
    checked, findings = _judge(corpus, measure(islice(entries(corpus), _GLANCE)), (), Options())
    wrong = [finding for finding in findings if finding.taken and finding.name != "duplicate"]
    if not wrong:
        return ""
    count = len({place for finding in wrong for place in finding.broken.places.tolist()})
    unit, partly = "pair" if corpus.paired else "text", checked.lines >= _GLANCE
    told = f"{count:,} of the first {_GLANCE:,} {unit}s" if partly else counted(count, unit)
    verb, them = ("looks", "it") if count == 1 else ("look", "them")
    reasons = ", ".join(f"{finding.count:,} {finding.broken.rule.brief}" for finding in wrong)
    given = " ".join(file.name for file in corpus.files) if isinstance(corpus, FileCorpus) else corpus.name
    return f"{told} {verb} wrong ({reasons}): regard data {given} --check shows {them}"


def _only_pairs(features: Features) -> Features:
    within = sound(features)
    columns: list[NDArray[Any]] = [column[..., within] for column in features]
    return Features(*columns)


def _judge(
    corpus: Corpus, measured: Measured, held_out: Sequence[HeldOut], options: Options
) -> tuple[Checked, list[Finding]]:
    features = measured.features
    lines = int(np.count_nonzero(features.fault != FAULTS.index(BLANK)))
    found = [_finding(one, lines, measured.shared, options) for one in broken(measured, corpus.paired, held_out)]
    taken = np.zeros(len(features.fault), np.bool_)
    for finding in found:
        if finding.taken:
            taken[finding.broken.places] = True
    found += [_finding(one, lines, measured.shared, options) for one in repeated(features, taken)]
    names = list(RULES)
    found = sorted((finding for finding in found if finding.count), key=lambda finding: names.index(finding.name))
    within = sound(features)
    source, target = (_side(row[within]) for row in features.words)
    aligned = int(features.aligned.sum())
    return Checked(corpus.name, corpus.paired, lines, len(within), aligned, source, target, tuple(found)), found


def _side(words: NDArray[np.int32]) -> CheckedSide:
    return CheckedSide(int(words.sum()), int(words.max(initial=0)))


def _finding(one: Broken, lines: int, shared: float, options: Options) -> Finding:
    count = len(one.places)
    share = count / max(1, lines)
    kept = _why_kept(one, count, share, shared)
    taken = one.rule.action is Action.ALWAYS or (not kept if options.drop is None else one.rule.name in options.drop)
    return Finding(one, share, taken, "" if taken else kept or "not asked for")


def _why_kept(one: Broken, count: int, share: float, shared: float) -> str:
    action = one.rule.action
    if action is Action.NEVER:
        return "not wrong"
    if action is Action.ASKED:
        return "may be right"
    if action is Action.UNLESS_COMMON and share > COMMON and (count > FEW_LINES or share > 0.5):
        return "too many for a mistake"
    if one.rule.name == "identical" and shared > _ALIKE:
        return f"may be right: {100 * shared:.0f} % of the targets' words occur in their sources"
    return ""


def _shown(one: Broken) -> list[int]:
    places: list[int] = one.places[:_EXAMPLES].tolist()
    return places


def _with_examples(finding: Finding, lines: dict[int, RawLine]) -> Finding:
    one, examples = finding.broken, []
    for i, place in enumerate(_shown(one)):
        entry = lines[place]
        like = None if one.like is None else int(one.like[i]) + 1
        examples.append(Example(place + 1, entry.pair.source, entry.pair.target, entry.why, like))
    return Finding(one, finding.share, finding.taken, finding.kept, tuple(examples))
