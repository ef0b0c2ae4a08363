"""Which words go together, and which of these combinations are kept out of training."""

from typing import Generic, NamedTuple, TypeVar
from zlib import crc32

from regard.data.phrasebook.lexicon import ADJECTIVES, COLORS, NOUNS, ORDINAL, Adjective, Noun
from regard.data.phrasebook.verbs import DATIVE, INTRANSITIVE, TRANSITIVE, Verb

T = TypeVar("T")

RESERVED_BY_HAND = frozenset(
    {("red", "dress"), ("give", "dress"), ("look", "key"), ("open", "window"), ("buy", "bread"), ("old", "castle")}
)
"""What the demo shows is new to every model; the rest of the reserved tenth is chosen by a checksum."""


def is_reserved(word: str, noun: str) -> bool:
    """Tell whether an English adjective or verb (base form) and a noun (singular) never meet in training."""
    return (word, noun) in RESERVED_BY_HAND or crc32(f"{word} {noun}".encode()) % 10 == 0


class Options(NamedTuple, Generic[T]):
    """What may be chosen: `free` everywhere, `reserved` in held-out text only."""

    free: tuple[T, ...]
    reserved: tuple[T, ...]


def _adjectives_of(noun: Noun, adjectives: tuple[Adjective, ...]) -> Options[Adjective]:
    fitting = [a for a in adjectives if a.nouns & noun.tags]
    return Options(
        tuple(a for a in fitting if not is_reserved(a.en, noun.en)),
        tuple(a for a in fitting if is_reserved(a.en, noun.en)),
    )


def _objects_of(verb: Verb) -> Options[Noun]:
    fitting = [n for n in NOUNS if n.tags & verb.objects]
    return Options(
        tuple(n for n in fitting if not is_reserved(verb.en, n.en)),
        tuple(n for n in fitting if is_reserved(verb.en, n.en)),
    )


def _verbs_of(noun: Noun, verbs: tuple[Verb, ...]) -> Options[Verb]:
    fitting = [v for v in verbs if noun.tags & v.objects]
    return Options(
        tuple(v for v in fitting if not is_reserved(v.en, noun.en)),
        tuple(v for v in fitting if is_reserved(v.en, noun.en)),
    )


BEFORE = {n: _adjectives_of(n, tuple(a for a in ADJECTIVES if a.before and a.en not in ORDINAL)) for n in NOUNS}
ORDINAL_BEFORE = {n: _adjectives_of(n, tuple(a for a in ADJECTIVES if a.en in ORDINAL)) for n in NOUNS}
AFTER = {n: _adjectives_of(n, tuple(a for a in ADJECTIVES if not a.before)) for n in NOUNS}
COLORED = {n: _adjectives_of(n, tuple(a for a in ADJECTIVES if a.en in COLORS)) for n in NOUNS}
PREDICATE = {n: _adjectives_of(n, tuple(a for a in ADJECTIVES if a.predicate)) for n in NOUNS}
OBJECTS = {v: _objects_of(v) for v in TRANSITIVE + DATIVE}
IN_RELATIVE = {n: _verbs_of(n, tuple(v for v in TRANSITIVE if v.articles == "any" or v.en in ("love", "know"))) for n in NOUNS}
"""The verbs whose object may be the antecedent of a relative clause ("the dress that she bought")."""
_AGAIN = frozenset("sell eat wash hide give show send repair close open forget lose take".split())
NEXT_VERBS = {n: _verbs_of(n, tuple(v for v in TRANSITIVE if v.en in _AGAIN)) for n in NOUNS}
"""What may be done next to something that was just bought or found ("and gave it to his sister")."""


def _with(*tags: str) -> tuple[Noun, ...]:
    return tuple(n for n in NOUNS if n.tags & frozenset(tags))


PERSONS = _with("person")
STRANGERS = _with("plain", "job", "royal")
ANIMALS = _with("animal")
THINGS = tuple(n for n in NOUNS if not n.tags & {"person"} and PREDICATE[n].free)
SUBJECTS = {v: _with(*v.subjects) for v in TRANSITIVE + DATIVE + INTRANSITIVE}
INSIDE, AT, ON = _with("inside"), _with("at"), _with("on")
WHEREABOUTS = tuple(n for n in NOUNS if n.tags & {"place", "tree", "door", "window", "table", "car"})
BENEATH = _with("table", "bed", "tree", "bridge", "chair")
SMALL_THINGS = _with("portable")
PLACES = _with("place")
ALL = NOUNS
