"""The language-independent syntax tree of a sentence, from which `render` writes English and French at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from regard.data.phrasebook.lexicon import Adjective, Fixed, Name, Noun
from regard.data.phrasebook.verbs import Verb


class Tense(Enum):
    """A tense named by its English; the comment says the French."""

    PRESENT = auto()  # sees: voit
    PROGRESSIVE = auto()  # is eating: mange
    PAST = auto()  # saw: a vu (loved: aimait, for stative verbs)
    PERFECT = auto()  # has seen: a vu
    WAS_ING = auto()  # was eating: mangeait
    USED_TO = auto()  # used to eat: mangeait
    FUTURE = auto()  # will see: verra
    WOULD = auto()  # would see: verrait
    AFTER_WHEN = auto()  # (when he) arrives: arrivera
    CONCEDED = auto()  # (although he) is: soit


class Agreement(NamedTuple):
    """The grammatical person (an index into `FrenchVerb` tenses) and the gender of a subject or object."""

    person: int
    feminine: bool

    @property
    def plural(self) -> bool:
        """Whether it is plural; "vous" is said to one person."""
        return self.person in (2, 4)


@dataclass(slots=True, eq=False)
class Pronoun:
    """A personal pronoun with its English subject and object forms and its French ones: je, me, me, moi."""

    subject: str
    object: str
    je: str
    direct: str
    indirect: str
    strong: str
    agreement: Agreement


I = Pronoun("I", "me", "je", "me", "me", "moi", Agreement(0, False))  # noqa: E741
YOU = Pronoun("you", "you", "vous", "vous", "vous", "vous", Agreement(3, False))
HE = Pronoun("he", "him", "il", "le", "lui", "lui", Agreement(1, False))
SHE = Pronoun("she", "her", "elle", "la", "lui", "elle", Agreement(1, True))
WE = Pronoun("we", "us", "nous", "nous", "nous", "nous", Agreement(2, False))
THEY = Pronoun("they", "them", "ils", "les", "leur", "eux", Agreement(4, False))
IT_M = Pronoun("it", "it", "il", "le", "", "", Agreement(1, False))
IT_F = Pronoun("it", "it", "elle", "la", "", "", Agreement(1, True))
THEM_F = Pronoun("they", "them", "elles", "les", "leur", "elles", Agreement(4, True))
WHO = Pronoun("who", "", "qui", "", "", "", Agreement(1, False))


@dataclass(slots=True, eq=False)
class Nominal:
    """A noun with what belongs to it. `determiner` is the English word; "" with an `owner` ("Marie's dress")."""

    noun: Noun
    plural: bool = False
    determiner: str = "the"
    count: int = 0
    before: Adjective | None = None
    after: Adjective | None = None
    very: bool = False
    owner: Phrase | None = None
    place: Prepositional | None = None
    relative: Relative | None = None

    @property
    def agreement(self) -> Agreement:
        """The third person, in the gender of the noun."""
        return Agreement(4 if self.plural else 1, self.noun.feminine)


@dataclass(slots=True, eq=False)
class Couple:
    """Two noun phrases joined by "and"."""

    left: Nominal | Name
    right: Nominal | Name


@dataclass(slots=True, eq=False)
class Gap:
    """The subject of a relative clause: nothing is said, but the verb agrees with the antecedent."""

    agreement: Agreement


Phrase = Nominal | Name | Pronoun | Couple


@dataclass(slots=True, eq=False)
class Prepositional:
    """A preposition, in English and French words, and its noun phrase."""

    en: str
    fr: str
    phrase: Phrase


@dataclass(slots=True, eq=False)
class Action:
    """A purpose or circumstance said with an infinitive: "to buy a hat", "before leaving", "without eating"."""

    joint: str
    phrase: VerbPhrase


@dataclass(slots=True, eq=False)
class Quality:
    """What a subject is said to be: "tired", "very tired", "tired and sad"."""

    adjectives: tuple[Adjective, ...]
    very: bool = False


@dataclass(slots=True, eq=False)
class VerbPhrase:
    """A verb with its objects and all that follows. `modal` is can, must, want to or going to."""

    verb: Verb
    direct: Phrase | None = None
    indirect: Phrase | None = None
    quality: Quality | None = None
    rest: list[Prepositional | Fixed | Action] = field(default_factory=list)
    modal: Verb | None = None
    joint: str = ""
    clause: Sentence | None = None


@dataclass(slots=True, eq=False)
class Clause:
    """A subject and one or two verb phrases. `polarity` is "", "not", "never" or "no longer"."""

    subject: Phrase | Gap
    phrases: list[VerbPhrase]
    tense: Tense
    polarity: str = ""
    adverb: Fixed | None = None
    front: Fixed | None = None


@dataclass(slots=True, eq=False)
class Exists:
    """Somebody or something is somewhere ("there is a cat in the garden"). `tense` is PRESENT, PAST or FUTURE."""

    phrase: Nominal
    place: Prepositional
    tense: Tense
    negated: bool = False


@dataclass(slots=True, eq=False)
class Linked:
    """Two clauses and the English word that joins them; with `fronted` the second, subordinate one comes first."""

    joint: str
    main: Sentence
    other: Sentence
    fronted: bool = False


@dataclass(slots=True, eq=False)
class Question:
    """A question. `word`: "" (yes or no), "where", "when", "why", "what", or "which", whose `asked` is an object."""

    clause: Clause
    word: str = ""
    asked: Nominal | None = None


@dataclass(slots=True, eq=False)
class Relative:
    """A relative clause; `word` is "who" or "that" (as subject), "that" (as object, with `object`) or "where"."""

    word: str
    clause: Clause
    object: bool = False


@dataclass(slots=True, eq=False)
class Request:
    """An imperative, said to "you": "do not close the door"."""

    phrase: VerbPhrase
    negated: bool = False


Sentence = Clause | Exists | Linked
Root = Phrase | Sentence | Question | Request
