"""The constraint state of a hypothesis: which required terms it contains so far.

Whether a term occurs is decided on the text, so any tokenization of it counts. What is forced is one tokenization: that
of the term after a space, or joined to what is before. An unknown token stands for the matching part of a term, if one
continues or can start with it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from regard.data.special_tokens import UNK
from regard.decoding.terminology.term_extraction import Term
from regard.decoding.terminology.term_matching import Pattern, Reading
from regard.decoding.terminology.term_tokens import Spelling, Way, Ways, spaced


class Demand(NamedTuple):
    """A term, and how often it must occur in the text."""

    pattern: Pattern
    ways: Ways
    times: int
    """Includes occurrences within other terms (`3` in `3.5`)."""
    terms: tuple[Term, ...]
    within: tuple[tuple[int, int], ...] = ()
    """Indices of longer demands that contain it, and how often each does."""


class Progress(NamedTuple):
    """Everything to know about a text so far."""

    readings: tuple[Reading, ...]
    counts: tuple[int, ...]
    """Certain occurrences of each demand, capped at the number required."""
    begun: frozenset[Way]
    """Rests of the tokenizations that the last tokens started."""
    first: bool
    """Whether the text is still empty."""


class Constraints:
    """The terms that one source's translation must contain; states are memoised by number."""

    def __init__(self, terms: Sequence[Term], spelling: Spelling) -> None:
        self.terms = tuple(terms)
        self._spelling = spelling
        self.demands = _demands(terms, spelling)
        self._every: list[Progress] = []
        self._numbers: dict[Progress, int] = {}
        self._next: dict[tuple[int, int], tuple[int, bytes]] = {}
        self._needed: dict[int, int] = {}
        self._offers: dict[int, frozenset[Way]] = {}
        none = (Reading(),) * len(self.demands), (0,) * len(self.demands)
        self.start = self._number(Progress(*none, frozenset(), True))
        self.total = self.needed(self.start)
        """Number of tokens of all terms."""

    @property
    def tokens(self) -> set[int]:
        """All tokens that may be forced."""
        return {unit.token for demand in self.demands for way in demand.ways if way for unit in way}

    @property
    def has_unknown(self) -> bool:
        """Whether the vocabulary lacks a part of a term."""
        return UNK in self.tokens

    def next(self, number: int, token: int) -> int:
        """Return the state after one more token."""
        return self._step(number, token)[0]

    def are_held(self, text: str) -> bool:
        """Whether a text contains all terms."""
        spelt = text.encode()
        return all(len(demand.pattern.scan(spelt).places) >= demand.times for demand in self.demands)

    def unknown(self, tokens: Sequence[int]) -> list[str | None]:
        """Return what each unknown token of a text stands for; None for all other tokens."""
        number, found = self.start, list[str | None]()
        for token in tokens:
            number, text = self._step(number, token)
            known = token != UNK or text == self._spelling.bytes_of(token)
            found.append(None if known else text.decode())
        return found

    def _step(self, number: int, token: int) -> tuple[int, bytes]:
        """Return the state after one more token, and the text of the token: that which leaves least to generate."""
        key = number, token
        known = self._next.get(key)
        if known is None:
            ways = [way for way in (*self.offers(number), *self._every[number].begun) if way[0].token == token]
            steps = []
            for text in sorted({way[0].text for way in ways}) or [self._spelling.bytes_of(token)]:
                begun = frozenset(way[1:] for way in ways if way[0].text == text and len(way) > 1)
                reached = self._number(self._read(self._every[number], text, begun))
                steps.append((self.needed(reached), reached, text))
            known = self._next[key] = min(steps)[1:]
        return known

    def needed(self, number: int) -> int:
        """Return the number of tokens that all missing terms take; 0 for a text that may end."""
        if number not in self._needed:
            progress = self._every[number]
            finished = (len(way) + self._missing(self._read(progress, _text(way))) for way in progress.begun)
            self._needed[number] = min([self._missing(progress), *finished])
        return self._needed[number]

    def wanted(self, number: int) -> set[int]:
        """Return the tokens that continue or start a missing term."""
        if not self.needed(number):
            return set()
        progress = self._every[number]
        missing = self._missing(progress)
        going_on = {way[0].token for way in progress.begun if self._missing(self._read(progress, _text(way))) < missing}
        return going_on | {way[0].token for way in self.offers(number)}

    def offers(self, number: int) -> frozenset[Way]:
        """Return the tokenizations of missing terms that can start now."""
        if number not in self._offers:
            progress = self._every[number]
            self._offers[number] = frozenset(
                way
                for place, missing in enumerate(self._lacks(progress))
                for way in (self._ways(self.demands[place], progress.first) if missing else ())
                if self._writes(progress, way, place)
            )
        return self._offers[number]

    def _ways(self, demand: Demand, first: bool) -> tuple[Way, ...]:
        ways = demand.ways
        if first and ways.first:
            return ways.always, ways.first
        return (ways.always,) if ways.glued is None or first else (ways.always, ways.glued)

    def _writes(self, progress: Progress, way: Way, place: int) -> bool:
        """Whether a tokenization would add a term now, without breaking one that was just completed."""
        added = _joined(progress, _text(way))
        pattern, reading = self.demands[place].pattern, progress.readings[place]
        after, more = pattern.read(reading, added)
        gained = more + pattern.stands_at_end(after) - pattern.stands_at_end(reading)
        standing = ((demand.pattern, own) for demand, own in zip(self.demands, progress.readings, strict=True))
        return gained > 0 and all(own.read(at, added)[1] for own, at in standing if own.stands_at_end(at))

    def _number(self, progress: Progress) -> int:
        number = self._numbers.setdefault(progress, len(self._every))
        if number == len(self._every):
            self._every.append(progress)
        return number

    def _read(self, progress: Progress, text: bytes, begun: frozenset[Way] = frozenset()) -> Progress:
        """Append text to a state, ignoring what was started before."""
        added = _joined(progress, text)
        readings, counts = [], []
        for demand, reading, count in zip(self.demands, progress.readings, progress.counts, strict=True):
            after, more = demand.pattern.read(reading, added)
            readings.append(after)
            counts.append(min(demand.times, count + more))
        return Progress(tuple(readings), tuple(counts), begun, progress.first and not added)

    def _lacks(self, progress: Progress) -> list[int]:
        """Return how often each term is missing if the text ended here, without those that come with longer terms."""
        missing: list[int] = []
        for demand, reading, count in zip(self.demands, progress.readings, progress.counts, strict=True):
            free = sum(missing[other] * times for other, times in demand.within)
            missing.append(max(0, demand.times - count - demand.pattern.stands_at_end(reading) - free))
        return missing

    def _missing(self, progress: Progress) -> int:
        """Return the number of tokens that the missing terms take."""
        lacks = zip(self._lacks(progress), self.demands, strict=True)
        return sum(count * len(demand.ways.always) for count, demand in lacks)


def _text(way: Way) -> bytes:
    return b"".join(unit.text for unit in way)


def _joined(progress: Progress, added: bytes) -> bytes:
    """Drop the space before the first word."""
    return added.removeprefix(b" ") if progress.first else added


def _demands(terms: Sequence[Term], spelling: Spelling) -> tuple[Demand, ...]:
    """Group equal terms, the longest first."""
    grouped: dict[bytes, list[Term]] = {}
    spelt: dict[bytes, Ways] = {}
    for term in terms:
        ways = spelling.ways(term.text)
        text = _text(ways.always).removeprefix(b" ")
        spelt[text] = ways
        grouped.setdefault(text, []).append(term)
    demands: list[Demand] = []
    for text in sorted(grouped, key=lambda text: (-len(text), text)):
        own = tuple(grouped[text])
        # If the vocabulary has no space, word boundaries do not apply.
        left, right = (
            side if spelling.spaces and all(getattr(term, name) == side for term in own) else ""
            for name, side in (("left", own[0].left), ("right", own[0].right))
        )
        ways = spelt[text]
        if spelling.sets_apart and all(term.apart for term in own) and spaced(own[0].text):
            ways = ways._replace(glued=None)
        demand = Demand(Pattern(text, left, right), ways, len(own), own)
        within = tuple(_within(demand, demands))
        times = len(own) + sum(len(demands[place].terms) * count for place, count in within)
        demands.append(demand._replace(times=times, within=within))
    return tuple(demands)


def _within(demand: Demand, longer: Sequence[Demand]) -> Iterator[tuple[int, int]]:
    """Yield the indices of longer terms that contain a term, and how often each does."""
    for place, other in enumerate(longer):
        count = len(demand.pattern.scan(other.pattern.text).places)
        if count:
            yield place, count
