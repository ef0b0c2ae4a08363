"""Which words can be combined, and which of these combinations are held out of training."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar
from zlib import crc32

from regard.data.phrasebook.lexicon import ADJECTIVES, COLORS, NOUNS, ORDINAL, Adjective, Noun
from regard.data.phrasebook.verbs import DATIVE, INTRANSITIVE, TRANSITIVE, Verb

T = TypeVar("T")

RESERVED_BY_HAND = frozenset(
    {("red", "dress"), ("give", "dress"), ("open", "window"), ("look", "key"), ("buy", "bread"), ("old", "castle")}
)
"""The combinations that the demo shows; the rest of the reserved tenth is chosen by a checksum."""


def is_reserved(word: str, noun: str) -> bool:
    """Return whether an English adjective or verb (base form) and a noun (singular) are a held-out combination."""
    return (word, noun) in RESERVED_BY_HAND or crc32(f"{word} {noun}".encode()) % 10 == 0


@dataclass(frozen=True, slots=True)
class Options(Generic[T]):
    """Options to draw from: `free` anywhere, `reserved` only in held-out text."""

    free: tuple[T, ...]
    reserved: tuple[T, ...]


def _adjectives_of(noun: Noun, adjectives: Iterable[Adjective]) -> Options[Adjective]:
    fitting = [a for a in adjectives if a.nouns & noun.tags]
    return _parted((a, is_reserved(a.en, noun.en)) for a in fitting)


def _objects_of(verb: Verb) -> Options[Noun]:
    fitting = [n for n in NOUNS if n.tags & verb.objects]
    return _parted((n, is_reserved(verb.en, n.en)) for n in fitting)


def _verbs_of(noun: Noun, verbs: Iterable[Verb]) -> Options[Verb]:
    fitting = [v for v in verbs if noun.tags & v.objects]
    return _parted((v, is_reserved(v.en, noun.en)) for v in fitting)


def _parted(marked: Iterable[tuple[T, bool]]) -> Options[T]:
    items = list(marked)
    return Options(tuple(i for i, reserved in items if not reserved), tuple(i for i, reserved in items if reserved))


FITTING = {n: _adjectives_of(n, ADJECTIVES) for n in NOUNS}
BEFORE = {n: _adjectives_of(n, (a for a in ADJECTIVES if a.before and a.en not in ORDINAL)) for n in NOUNS}
ORDINAL_BEFORE = {n: _adjectives_of(n, (a for a in ADJECTIVES if a.en in ORDINAL)) for n in NOUNS}
AFTER = {n: _adjectives_of(n, (a for a in ADJECTIVES if not a.before)) for n in NOUNS}
COLORED = {n: _adjectives_of(n, (a for a in ADJECTIVES if a.en in COLORS)) for n in NOUNS}
PREDICATE = {n: _adjectives_of(n, (a for a in ADJECTIVES if a.predicate)) for n in NOUNS}
OBJECTS = {v: _objects_of(v) for v in TRANSITIVE + DATIVE}
IN_RELATIVE = {
    n: _verbs_of(n, tuple(v for v in TRANSITIVE if v.articles == "any" or v.en in ("love", "know"))) for n in NOUNS
}
"""The verbs whose object may be the antecedent of a relative clause ("the dress that she bought")."""
_AGAIN = frozenset(["sell", "eat", "wash", "give", "show", "send", "repair", "close", "open", "lose", "take"])
NEXT_VERBS = {n: _verbs_of(n, tuple(v for v in TRANSITIVE if v.en in _AGAIN)) for n in NOUNS}
"""Verbs that can follow with the same object ("and gave it to his sister")."""


def _with(*tags: str) -> tuple[Noun, ...]:
    return tuple(n for n in NOUNS if n.tags & frozenset(tags))


PERSONS = _with("person")
STRANGERS = _with("plain", "job", "royal")
ANIMALS = _with("animal")
THINGS = tuple(n for n in NOUNS if not n.tags & {"person"} and PREDICATE[n].free)
SUBJECTS = {v: _with(*v.subjects) for v in TRANSITIVE + DATIVE + INTRANSITIVE}
_WIDE = {"island", "city", "village", "street", "beach"}  # nobody stands behind or in front of these
INSIDE, AT, ON = _with("inside"), _with("at"), _with("on")
WHEREABOUTS = tuple(
    n for n in NOUNS if n.tags & {"place", "tree", "door", "window", "table", "car"} and not n.tags & _WIDE
)
BENEATH = _with("table", "bed", "tree", "bridge", "chair")
SMALL_THINGS = _with("portable")
CONTAINERS = _with("house", "room", "kitchen", "garden", "bag", "box", "car")
