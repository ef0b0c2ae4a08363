"""Draw noun phrases and verb complements: the random choices that make a tree, given a number of words."""

import random
from collections.abc import Sequence
from typing import TypeVar

from regard.data.phrasebook import collocations as c
from regard.data.phrasebook import lexicon as x
from regard.data.phrasebook.lexicon import Adjective, Fixed, Name, Noun
from regard.data.phrasebook.syntax_tree import (
    HE,
    SHE,
    THEY,
    WE,
    YOU,
    Couple,
    Gap,
    I,
    Nominal,
    Phrase,
    Prepositional,
    Pronoun,
    Quality,
    Tense,
)
from regard.data.phrasebook.verbs import Verb

T = TypeVar("T")

_OWN = ("my", "my", "his", "her", "our", "your", "their")
_PEOPLE = (HE, SHE, I, YOU, WE, THEY, HE, SHE)


class Draw:
    """Random choices from one generator; uses only `random()`, the one method that Python guarantees to be stable."""

    def __init__(self, rng: random.Random, train: bool) -> None:
        self.random = rng.random
        self.train = train
        self.room = 0
        """How many English words the sentence may still have, about."""
        self.opening = False
        """Whether the clause being drawn opens the sentence; only there may a time come first."""
        self.within = False
        """Whether a relative clause is being drawn; its subject gets none of its own."""
        self.weathered = False
        """Whether the weather was mentioned: once will do."""
        self.timeless = False
        """Whether times are left out: in subordinate clauses and in what somebody said."""
        self.women = False
        """Whether a feminine plural was named: "they" is always "ils", so it must not seem to take that up."""

    def chance(self, probability: float) -> bool:
        """Return True with a probability."""
        return self.random() < probability

    def pick(self, options: Sequence[T]) -> T:
        """Draw one option uniformly."""
        return options[int(self.random() * len(options))]

    def one_of(self, options: c.Options[T]) -> T | None:
        """Draw a free option; in held-out text, half the time a reserved one. None if there is none."""
        if not self.train and options.reserved and self.random() < 0.5:
            return self.pick(options.reserved)
        return self.pick(options.free) if options.free else None

    def object_of(self, verb: Verb) -> Noun:
        """Draw a noun that the verb takes as its object."""
        noun = self.one_of(c.OBJECTS[verb])
        assert noun is not None, f"every object of {verb.en!r} is reserved"
        return noun

    # ------------------------------------------------------------------------------------------- nouns

    def person(self, short: bool = False) -> Phrase:
        """Draw a subject that is a person."""
        u = self.random()
        if u < (0.6 if short else 0.35):
            return self.pronoun()
        if u < (0.8 if short else 0.5):
            self.room -= 1
            return self.pick(x.PEOPLE)
        if u < 0.57 and self.room > 9:
            return self.couple()
        return self.nominal(self.pick(c.PERSONS), "subject")

    def pronoun(self) -> Pronoun:
        """Draw a personal pronoun."""
        pronoun = self.pick(_PEOPLE)
        if pronoun is THEY and self.women:
            pronoun = HE
        self.room -= 1
        return pronoun

    def couple(self) -> Couple:
        """Draw two people, one of them by name."""
        left: Nominal | Name = self.pick(x.PEOPLE)
        right: Nominal | Name = self.nominal(self.pick(c.PERSONS), "bare", "definite")
        if self.chance(0.4):
            left, right = right, left
        self.room -= 2
        self.women = self.women or (self._feminine(left) and self._feminine(right))
        return Couple(left, right)

    @staticmethod
    def _feminine(member: Nominal | Name) -> bool:
        return member.feminine if isinstance(member, Name) else member.noun.feminine

    def nominal(self, noun: Noun, use: str, articles: str = "any", denied: bool = False) -> Nominal:
        """Draw a noun phrase about `noun`. `use` is "subject", "object", "place", "alone" or "bare" (no adornment)."""
        mass = "mass" in noun.tags
        plural = (
            not mass and use != "place" and "single" not in noun.tags and self.chance(0.35 if use != "bare" else 0.15)
        )
        node = Nominal(noun, plural)
        self._determine(node, use, articles, denied, mass)
        self.room -= 2
        if plural and noun.feminine:
            self.women = True
        if use == "alone" or (self.room > 1 and use != "bare" and self.chance(0.15 + 0.02 * min(self.room, 15))):
            self._describe(node)
        return node

    def _determine(self, node: Nominal, use: str, articles: str, denied: bool, mass: bool) -> None:
        tags = node.noun.tags
        u = self.random()
        if "kin" in tags and articles != "indefinite":
            node.determiner = self.pick(_OWN)
            if not node.plural and use != "bare" and u < 0.2:
                node.determiner, node.owner = "", self.pick(x.PEOPLE)
            return
        indefinite = articles == "indefinite" or (
            articles == "any" and u < {"subject": 0.12, "object": 0.45, "place": 0.15, "alone": 0.4, "bare": 0.1}[use]
        )
        if (indefinite and use != "subject") or (indefinite and not denied):
            self._indefinite(node, denied, mass, use)
        elif u > 0.93 and use in ("object", "alone") and not mass and not tags & {"place", "person", "part"}:
            self._owned(node)
        elif u > 0.83:
            node.determiner = "these" if node.plural else "this"
        elif u > 0.68 and not tags & {
            "royal",
            "plain",
            "at",
            "on",
            "city",
            "village",
            "street",
            "bridge",
            "tree",
            "river",
        }:
            node.determiner = self.pick(_OWN)
        elif u > 0.64 and node.plural and use == "subject" and not denied:
            node.determiner = "all the"
        elif u > 0.61 and node.plural and use != "place":
            node.count = self._number(12)

    def _indefinite(self, node: Nominal, denied: bool, mass: bool, use: str) -> None:
        if mass:
            node.determiner = "some"
        elif not node.plural:
            node.determiner = "every" if use == "subject" and self.chance(0.3) else "a"
        elif denied:
            node.determiner = "some"
        else:
            u = self.random()
            if u < 0.45:
                node.determiner = "some"
            elif u < 0.6:
                node.determiner = "many"
            else:
                node.determiner, node.count = "", self._number(99)

    def _number(self, largest: int) -> int:
        """Draw a number; large ones end in 0, 1 or 5, which spares the small vocabulary and keeps what is irregular."""
        if largest < 20 or self.chance(0.6):
            return 2 + int(self.random() * 9)
        return (
            11 + int(self.random() * 9)
            if self.chance(0.3)
            else 10 * (2 + int(self.random() * 8)) + self.pick((0, 1, 5))
        )

    def _owned(self, node: Nominal) -> None:
        node.determiner = ""
        self.room -= 1
        if self.chance(0.5):
            node.owner = self.pick(x.PEOPLE)
        else:
            noun = self.pick(c.PERSONS)
            node.owner = Nominal(noun, False, self.pick(_OWN) if "kin" in noun.tags else "the")

    def _describe(self, node: Nominal) -> None:
        """Add one adjective, or one that goes before the French noun and a color."""
        noun, u = node.noun, self.random()
        self.room -= 1
        if u < 0.07 and node.determiner == "the" and not node.count:
            node.before = self.one_of(c.ORDINAL_BEFORE[noun])
        elif u < 0.5:
            node.before = self.one_of(c.BEFORE[noun])
            if node.before and not node.owner and self.room > 2 and self.chance(0.25):
                node.after = self.one_of(c.COLORED[noun])
                self.room -= node.after is not None
        else:
            node.after = self.one_of(c.AFTER[noun])
        single = (node.before is None) != (node.after is None)
        if single and node.determiner == "a" and not (node.after and node.after.en in x.COLORS) and self.chance(0.15):
            node.very = node.after is None or node.after.en not in ("open", "closed", "broken")

    def thing(self, verb: Verb, noun: Noun, articles: str, denied: bool = False) -> Nominal:
        """Draw an object that is not already what the verb makes it: nobody closes a closed door."""
        node = self.nominal(noun, "object", articles, denied)
        if node.after and node.after.en in _STATES and verb.en in _CHANGES:
            node.after = None
            node.very = node.very and node.before is not None
        return node

    def quality(self, subject: Phrase, passing: bool = False) -> Quality | None:
        """Draw what the subject is said to be; with `passing` only what may change, as in "will be tired"."""
        options = c.PREDICATE[subject.noun] if isinstance(subject, Nominal) else _OF_PEOPLE
        first = self.one_of(options)
        if first is None or not fits(first, subject) or (passing and first.en not in _PASSING):
            return None
        self.room -= 1
        very = self.chance(0.2) and first.en not in _ABSOLUTE
        if self.room > 1 and not passing and self.chance(0.2):
            second = self.one_of(options)
            if second and fits(second, subject) and _compatible(first, second):
                self.room -= 2
                return Quality((first, second), False)
        self.room -= very
        return Quality((first,), very)

    # ------------------------------------------------------------------------- what surrounds the verb

    def place(self, to_reach: bool = False) -> Prepositional:
        """Draw a place to be in, or, with `to_reach`, one to go to or arrive at."""
        self.room -= 1
        u = self.random()
        if u < 0.15:
            self.room -= 1
            return Prepositional("to" if to_reach else "in", "à", self.pick(x.CITIES))
        if to_reach:
            return Prepositional("to", "à", self.nominal(self.pick(c.AT), "place", "definite"))
        if u < 0.45:
            return Prepositional("in", "dans", self.nominal(self.pick(c.INSIDE), "place"))
        if u < 0.55:
            return Prepositional("at", "à", self.nominal(self.pick(c.AT), "place", "definite"))
        if u < 0.63:
            return Prepositional("on", "sur", self.nominal(self.pick(c.ON[-3:]), "place", "definite"))
        if u < 0.7:
            return Prepositional("under", "sous", self.nominal(self.pick(c.BENEATH[3:]), "place", "definite"))
        en, fr = self.pick((("near", "près de"), ("behind", "derrière"), ("in front of", "devant")))
        if en == "in front of":
            self.room -= 2
        return Prepositional(en, fr, self.nominal(self.pick(c.WHEREABOUTS), "place", "definite"))

    def spot(self, thing: Nominal) -> Prepositional:
        """Draw a place where a small thing may lie."""
        self.room -= 1
        u = self.random()
        if u < 0.4:
            return Prepositional("on", "sur", self.nominal(self.pick(c.ON[:3]), "place", "definite"))
        if u < 0.6:
            return Prepositional("under", "sous", self.nominal(self.pick(c.BENEATH), "place", "definite"))
        # The first two are the bag and the box: they do not lie in one another.
        around = c.CONTAINERS[2:] if thing.noun in c.CONTAINERS else c.CONTAINERS
        return Prepositional("in", "dans", self.nominal(self.pick(around), "place", "definite"))

    def company(self, subject: Phrase) -> Prepositional:
        """Draw somebody to do it with, other than the subject."""
        self.room -= 1
        u = self.random()
        if u < 0.3 and not isinstance(subject, Pronoun):
            return Prepositional("with", "avec", self.pronoun())
        if u < 0.55:
            self.room -= 1
            return Prepositional("with", "avec", self.pick(other_names(subject)))
        return Prepositional("with", "avec", apart(self.nominal(self.pick(c.PERSONS), "bare", "definite"), subject))

    def time(self, tense: Tense, stative: bool) -> Fixed | None:
        """Draw a time that goes with the tense. A habit would turn the French past into an imperfect, so the simple
        past never has one.
        """
        options = _TIMES.get((tense, stative), ())
        if not options:
            return None
        chosen = self.pick(options)
        if chosen == "day":
            expression = self.pick(x.ON_DAY)
        elif chosen == "hour":
            expression = self.pick(x.AT_HOUR)
        elif chosen == "month":
            expression = self.pick(x.IN_MONTH)
        elif chosen == "date":
            month = int(self.random() * 12)
            if self.chance(0.5):
                expression = x.date_in_words(1 + int(self.random() * 10), month)
            else:
                expression = x.date_in_digits(self.pick(_DAYS), month)
        else:
            assert isinstance(chosen, Fixed)
            expression = chosen
        self.room -= len(expression.en)
        return expression


_ANOTHER = {"the": "this", "this": "the", "these": "the", "my": "your", "our": "your", "your": "my"}
"""What to say instead of a determiner, so that the same noun names another one."""
_DAYS = (1, 2, 3, 5, 8, 10, 11, 12, 14, 15, 20, 21, 25, 28)
_PASSING = frozenset(
    [
        "happy",
        "sad",
        "tired",
        "sick",
        "famous",
        "open",
        "closed",
        "clean",
        "dirty",
        "empty",
        "cold",
        "hot",
        "expensive",
        "broken",
        "quiet",
    ]
)
_STATES = frozenset({"open", "closed", "broken"})
_CHANGES = frozenset({"open", "close", "break", "repair"})
_ABSOLUTE = frozenset(["open", "closed", "broken", "empty"]) | x.COLORS
_FOR_PEOPLE = frozenset(["happy", "sad", "tired", "sick", "kind", "rich"])
_OF_PEOPLE: c.Options[Adjective] = c.Options(tuple(a for a in x.ADJECTIVES if a.en in _FOR_PEOPLE), ())
_OPPOSED = (
    {"happy", "sad", "sick"},
    {"big", "small"},
    {"old", "young", "new"},
    {"good", "bad"},
    {"clean", "dirty", "fresh"},
    {"open", "closed", "broken"},
    {"hot", "cold", "fresh"},
    {"beautiful", "pretty"},
    {"heavy", "small"},
    {"quiet", "dangerous"},
    {"empty", "open", "closed"},
    {"famous", "quiet"},
)


def _compatible(first: Adjective, second: Adjective) -> bool:
    pair = {first.en, second.en}
    return len(pair) == 2 and len(pair & x.COLORS) < 2 and not any(pair <= group for group in _OPPOSED)


def fits(adjective: Adjective, subject: Phrase) -> bool:
    """Tell whether the subject is not called that already, nor the opposite ("the old king is young")."""
    called = (subject.before, subject.after) if isinstance(subject, Nominal) else ()
    return all(a is None or _compatible(adjective, a) for a in called)


def _members(subject: Phrase | Gap) -> tuple[Phrase | Gap, ...]:
    return (subject.left, subject.right) if isinstance(subject, Couple) else (subject,)


def other_names(subject: Phrase | Gap) -> list[Name]:
    """List the people whom the subject does not name."""
    return [name for name in x.PEOPLE if name not in _members(subject)]


def apart(node: Nominal, subject: Phrase | Gap) -> Nominal:
    """Keep an object from naming the subject again: not "the king helps the king" but "… this king"."""
    for member in _members(subject):
        if isinstance(member, Nominal) and _called(member) == _called(node) and node.determiner in _ANOTHER:
            another = _ANOTHER[node.determiner]
            node.determiner = "these" if another == "this" and node.plural else another
            break
    return node


def _called(node: Nominal) -> tuple[object, ...]:
    return node.noun, node.plural, node.determiner, node.count, node.before, node.after


_Time = Fixed | str
_DATED: tuple[_Time, ...] = ("day", "hour", "date", "month")
_TIMES: dict[tuple[Tense, bool], tuple[_Time, ...]] = {
    (Tense.PRESENT, False): (x.EVERY_DAY, x.MORNING, x.EVENING, "hour"),
    (Tense.PROGRESSIVE, False): (x.NOW, x.TODAY),
    (Tense.PAST, False): (x.YESTERDAY, x.YESTERDAY, x.LAST_WEEK, x.LAST_YEAR, *_DATED),
    (Tense.PERFECT, False): (x.TODAY,),
    (Tense.WAS_ING, False): (x.YESTERDAY, "hour"),
    (Tense.USED_TO, False): (x.EVERY_DAY, x.MORNING, x.EVENING),
    (Tense.FUTURE, False): (x.TOMORROW, x.TOMORROW, x.NEXT_WEEK, x.NEXT_YEAR, x.THIS_EVENING, *_DATED),
}
