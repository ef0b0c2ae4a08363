"""Draws simple clauses and the relative clauses within them, in the tenses of a time frame."""

from enum import Enum, auto

from regard.data.phrasebook import collocations as c
from regard.data.phrasebook import lexicon as x
from regard.data.phrasebook import verbs as v
from regard.data.phrasebook.lexicon import Fixed
from regard.data.phrasebook.noun_phrases import Draw, apart, other_names
from regard.data.phrasebook.syntax_tree import (
    HE,
    IT_F,
    IT_M,
    SHE,
    THEM_F,
    THEY,
    Action,
    Clause,
    Exists,
    Gap,
    Nominal,
    Phrase,
    Prepositional,
    Pronoun,
    Relative,
    Sentence,
    Tense,
    VerbPhrase,
)
from regard.data.phrasebook.verbs import Verb, named


class Frame(Enum):
    """The time a sentence is about; REPORTED is what follows "he said that"."""

    PAST = auto()
    PRESENT = auto()
    FUTURE = auto()
    REPORTED = auto()


_EAGER = ("go", "come", "get", "stay", "leave")
_COMPOUND = {Tense.PAST, Tense.PERFECT}


class Clauses(Draw):
    """Draws clauses with one subject."""

    def clause(self, room: int, frame: Frame, joint: str = "", hoped: bool = False) -> Sentence:
        """Draw one main clause; `joint` is the subordinate clause it goes with, where that limits its tense."""
        self.room = room
        if joint or hoped:
            tense = Tense.WOULD
            if joint:
                present = Tense.PROGRESSIVE if joint == "while" else Tense.PRESENT
                tense = self.pick((Tense.WAS_ING, Tense.PAST)) if frame is Frame.PAST else present
            return self.doing(room, tense)
        u = self.random()
        if u < 0.17:
            node = self.being(frame)
            if node is not None:
                return node
        elif u < 0.23 and room > 5 and frame is not Frame.REPORTED:
            return self._exists(frame)
        elif u < 0.26 and not self.weathered:
            return self.weather(frame)
        elif u < 0.36 and frame in (Frame.PAST, Frame.FUTURE) and room > 8:
            return self._twice(frame)
        return self.doing(room, self.tense(frame))

    def tense(self, frame: Frame) -> Tense:
        """Draw a tense of the frame."""
        u = self.random()
        if frame is Frame.PRESENT:
            return Tense.PRESENT if u < 0.6 else Tense.PROGRESSIVE
        if frame is Frame.FUTURE:
            return Tense.FUTURE
        if frame is Frame.REPORTED:
            return Tense.WOULD if u < 0.5 else Tense.WAS_ING
        return Tense.PAST if u < 0.6 else Tense.PERFECT if u < 0.75 else Tense.WAS_ING if u < 0.9 else Tense.USED_TO

    def being(self, frame: Frame) -> Clause | None:
        """Draw "the door is open" or "the key is on the table"; None if nothing fits the subject."""
        tense = {Frame.PRESENT: Tense.PRESENT, Frame.FUTURE: Tense.FUTURE}.get(frame, Tense.PAST)
        if self.chance(0.3):
            lying = self.nominal(self.pick(c.SMALL_THINGS), "subject", "definite")
            return self._adorned(Clause(lying, [VerbPhrase(v.BE, rest=[self.spot(lying)])], tense), lying)
        subject = self.person() if self.chance(0.4) else self.nominal(self.pick(c.THINGS), "subject", "definite")
        quality = self.quality(subject, frame is Frame.FUTURE)
        if quality is None:
            return None
        node = Clause(subject, [VerbPhrase(v.BE, quality=quality)], tense)
        u = self.random()
        if u < 0.2 and not quality.very and len(quality.adjectives) == 1 and _deniable(subject):
            node.polarity = "not" if u < 0.14 or tense is Tense.PAST else "never"
        return self._adorned(node, subject)

    def _exists(self, frame: Frame) -> Exists:
        tense = {Frame.PRESENT: Tense.PRESENT, Frame.FUTURE: Tense.FUTURE}.get(frame, Tense.PAST)
        negated = self.chance(0.3) and tense is not Tense.FUTURE
        self.room -= 2
        if self.chance(0.5):
            phrase = self.nominal(self.pick(c.SMALL_THINGS), "object", "indefinite", negated)
            return Exists(phrase, self.spot(phrase), tense, negated)
        phrase = self.nominal(self.pick(c.STRANGERS + c.ANIMALS), "object", "indefinite", negated)
        return Exists(phrase, self.place(), tense, negated)

    def _twice(self, frame: Frame) -> Clause:
        """Draw two things done by one subject; the second may be done to what the first was done to."""
        tense = Tense.PAST if frame is Frame.PAST else Tense.FUTURE
        subject = self.person()
        first = self.pick((_BUY, _FIND, _TAKE, _WASH))
        noun = self.object_of(first)
        again = self.one_of(c.NEXT_VERBS[noun])
        if again is None or again is first:
            return self.doing(self.room, tense)
        thing = self.nominal(noun, "object")
        pronoun = (THEM_F if noun.feminine else THEY) if thing.plural else IT_F if noun.feminine else IT_M
        second = VerbPhrase(again, pronoun)
        self.room -= 3
        if "gives" in again.flags:
            second.indirect = self._receiver(subject)
        one = VerbPhrase(first, thing)
        return self._adorned(Clause(subject, [one, second], tense), subject, second)

    def doing(self, room: int, tense: Tense) -> Clause:
        """Draw somebody doing something."""
        self.room = room - 1
        verb = self.verb(tense)
        subject = self.agent(verb)
        if tense is Tense.WOULD and isinstance(subject, Pronoun) and subject.agreement.person not in (1, 4):
            subject = self.pick((HE, SHE))  # the conditional is rare: its other persons would never be learnt
        return self.predicate(verb, subject, tense)

    def verb(self, tense: Tense) -> Verb:
        """Draw a verb that has the tense and leaves room for its objects."""
        progressive = tense in (Tense.PROGRESSIVE, Tense.WAS_ING)
        for _ in range(20):
            u = self.random()
            if u < (0.3 if self.room < 4 else 0.18):
                verb = self.pick(v.INTRANSITIVE)
            elif u < 0.36 and self.room > 2:
                verb = self.pick((v.GO, v.COME, v.LIVE, v.STAY))
            elif u < 0.45 and self.room > 1:
                verb = self.pick(v.DATIVE)
            else:
                verb = self.pick(v.TRANSITIVE)
            if "gives" in verb.flags and self.room < 5:
                continue
            if not (progressive and (verb.punctual or verb.stative)) and not (tense is Tense.PERFECT and verb.stative):
                return verb
        return v.INTRANSITIVE[0]

    def agent(self, verb: Verb) -> Phrase:
        """Draw a subject for the verb."""
        others = verb.subjects - {"person"}
        if others and self.chance(0.3):
            return self.nominal(self.pick([n for n in c.SUBJECTS[verb] if n.tags & others]), "subject")
        return self.person(short=self.room < 5)

    def predicate(
        self, verb: Verb, subject: Phrase | Gap, tense: Tense, gap: bool = False, plain: bool = False
    ) -> Clause:
        """Draw the rest of a clause about `verb`; with `gap` its direct object stands elsewhere."""
        phrase = VerbPhrase(verb)
        node = Clause(subject, [phrase], tense)
        self._negate(node, verb)
        if node.polarity in ("", "not"):
            self._modify(node, phrase, tense, isinstance(subject, Gap) or plain)
        if verb in c.OBJECTS and not gap:
            phrase.direct = self._object(verb, subject, node)
        if "gives" in verb.flags:
            phrase.indirect = self._receiver(subject)
        if verb in (v.GO, v.COME, v.LIVE, v.STAY):
            phrase.rest.append(self._goal(verb))
        return self._adorned(node, subject, None if plain else phrase)

    def _goal(self, verb: Verb) -> Prepositional:
        if verb is v.GO:
            return self.place(to_reach=True)
        if verb is v.COME:
            self.room -= 1
            return Prepositional("from", "de", self.nominal(self.pick(c.AT), "place", "definite"))
        self.room -= 1
        if self.chance(0.4):
            self.room -= 1
            return Prepositional("in", "à", self.pick(x.CITIES))
        dwelling = self.nominal(self.pick(_DWELLINGS), "place")
        if self.room > 5 and self.chance(0.5):
            dwelling.relative = self.relative(dwelling)
        return Prepositional("in", "dans", dwelling)

    def _negate(self, node: Clause, verb: Verb) -> None:
        if node.tense in (Tense.USED_TO, Tense.AFTER_WHEN) or not self.chance(0.2) or not _deniable(node.subject):
            return
        u = self.random()
        if u < 0.7:
            node.polarity = "not"
            self.room -= 2
        elif node.tense in (Tense.PRESENT, Tense.PERFECT, Tense.FUTURE):
            node.polarity = "never" if (u < 0.88 and not verb.stative) or node.tense is Tense.PERFECT else "no longer"
            self.room -= 1

    def _modify(self, node: Clause, phrase: VerbPhrase, tense: Tense, plain: bool) -> None:
        """Add a modal or an adverb."""
        u = self.random()
        person, stative = _human(node.subject), phrase.verb.stative
        if u < 0.17 and tense is Tense.PRESENT and person and not stative:
            phrase.modal = self.pick((v.CAN, v.MUST, v.WANT_TO))
            self.room -= 2
        elif u < 0.08 and tense is Tense.PAST and person and not stative:
            phrase.modal = self.pick((v.WANT_TO, v.CAN))
            self.room -= 2
        elif u < 0.2 and tense is Tense.FUTURE and not stative and not plain:
            phrase.modal, node.tense = v.GOING, Tense.PROGRESSIVE
            self.room -= 2
        elif node.polarity or self.timeless:
            return
        elif u < 0.3 and tense is Tense.PRESENT and not stative:
            node.adverb = self.pick((x.OFTEN, x.ALWAYS, x.SOMETIMES))
            self.room -= 1
        elif u < 0.4 and tense is Tense.PERFECT:
            node.adverb = self.pick((x.OFTEN, x.ALREADY))
            self.room -= 1

    def _object(self, verb: Verb, subject: Phrase | Gap, node: Clause) -> Phrase:
        """Draw a direct object: a pronoun where people can be one, otherwise a noun phrase."""
        if "person" in verb.objects and self.chance(0.45):
            return self._other_person(subject, "dative" not in verb.flags and node.tense in _COMPOUND)
        noun = self.object_of(verb)
        denied = bool(node.polarity) and "dative" not in verb.flags
        articles = "definite" if "dative" in verb.flags or (node.polarity and "place" in noun.tags) else verb.articles
        thing = apart(self.thing(verb, noun, articles, denied), subject)
        if denied and (thing.count or thing.determiner == "many"):
            thing.count, thing.determiner = 0, "the"
        if (
            self.room > 5
            and self.chance(0.6)
            and "gives" not in verb.flags
            and (not denied or thing.determiner not in ("a", "some"))
        ):
            thing.relative = self.relative(thing)
        return thing

    def _other_person(self, subject: Phrase | Gap, agreeing: bool) -> Pronoun:
        """Draw an object pronoun of another person than the subject; where a participle agrees with it, not "them"."""
        pronoun = self.pronoun()
        if pronoun is THEY and agreeing:
            return SHE
        if (
            isinstance(subject, Pronoun)
            and subject.agreement.person in (0, 2, 3)
            and pronoun.agreement.person in (0, 2, 3)
        ):
            return HE
        return pronoun

    def _receiver(self, subject: Phrase | Gap) -> Phrase:
        self.room -= 1
        if self.chance(0.5):
            return self._other_person(subject, False)
        if self.chance(0.3):
            return self.pick(other_names(subject))
        return apart(self.nominal(self.pick(c.PERSONS), "object", "definite"), subject)

    def _adorned(self, node: Clause, subject: Phrase | Gap, phrase: VerbPhrase | None = None) -> Clause:
        """Use up the room: a relative clause on the subject, a place, company, a purpose, a time."""
        free = not self.within and self.room > 6 and self.chance(0.6)
        if free and isinstance(subject, Nominal) and subject.determiner != "every":
            subject.relative = self.relative(subject)
        modal = node.phrases[0].modal
        tense = Tense.FUTURE if modal is v.GOING else node.tense
        if phrase is not None and not _ends_in_relative(phrase):
            self._circumstances(phrase, subject)
            if self.room > 3 and phrase.verb.en in _EAGER and self.chance(0.5) and _human(subject):
                phrase.rest.append(self._action(phrase))
        verb = node.phrases[0].verb
        if self.timeless:
            return node
        if (self.room > 0 and self.chance(0.35 + 0.05 * min(self.room, 8)) and not modal) or (
            modal is v.GOING and self.room > 1
        ):
            time = None if node.polarity in ("never", "no longer") or node.adverb else self.time(tense, verb.stative)
            if time is not None:
                self._put_time(node, time)
        return node

    def _put_time(self, node: Clause, time: Fixed) -> None:
        last = node.phrases[-1]
        acted = any(isinstance(item, Action) for item in last.rest)
        full = acted or _ends_in_relative(last)
        if self.opening and (full or self.chance(0.25)):
            node.front = time
        elif not full:
            last.rest.append(time)

    def _circumstances(self, phrase: VerbPhrase, subject: Phrase | Gap) -> None:
        flags = phrase.verb.flags
        if "swim" in flags and self.room > 2 and self.chance(0.6):
            phrase.rest.append(Prepositional("in", "dans", self.nominal(_RIVER, "place", "definite")))
        elif "at" in flags and self.room > 2 and self.chance(0.6):
            self.room -= 1
            phrase.rest.append(Prepositional("at", "à", self.nominal(self.pick(c.AT), "place", "definite")))
        elif "place" in flags and self.room > 2 and self.chance(0.5):
            phrase.rest.append(self.place())
        if "with" in flags and self.room > 2 and self.chance(0.4) and not isinstance(subject, Gap):
            phrase.rest.append(self.company(subject))

    def _action(self, phrase: VerbPhrase) -> Action:
        joint = self.pick(
            ("to", "to", "before", "without") if phrase.verb.en in ("go", "come") else ("before", "without")
        )
        verb = self.pick(_DEEDS if joint == "to" else _DEEDS[2:])
        noun = self.object_of(verb)
        self.room -= 2
        articles = "definite" if joint == "without" else "any"
        return Action(joint, VerbPhrase(verb, self.thing(verb, noun, articles)))

    def weather(self, frame: Frame, joint: str = "") -> Clause:
        """Draw the weather, as a main clause or as one that follows `joint`."""
        it, self.room, self.weathered = IT_M, self.room - 3, True
        if self.chance(0.35):
            tense = {Frame.FUTURE: Tense.FUTURE, Frame.PRESENT: Tense.PRESENT}.get(frame, Tense.PAST)
            if frame is Frame.FUTURE and joint:
                tense = Tense.AFTER_WHEN if joint == "when" else Tense.PRESENT
            return Clause(it, [VerbPhrase(v.FEEL, rest=[self.pick((_COLD, _HOT))])], tense)
        verb = self.pick((v.RAIN, v.RAIN, v.SNOW))
        if frame is Frame.FUTURE:
            tense = {"": Tense.FUTURE, "when": Tense.AFTER_WHEN}.get(joint, Tense.PRESENT)
        elif frame is Frame.PRESENT:
            tense = Tense.PRESENT if joint in ("when", "if") else Tense.PROGRESSIVE
        else:
            tense = Tense.WAS_ING
        return Clause(it, [VerbPhrase(verb)], tense)

    # --------------------------------------------------------------------------------------- relative clauses

    def relative(self, antecedent: Nominal) -> Relative | None:
        """Draw a relative clause about the antecedent, or None where none fits."""
        if antecedent.owner is not None or antecedent.place is not None or "family" in antecedent.noun.tags:
            return None
        before = self.opening, self.within
        self.opening, self.within = False, True
        node = self._relative(antecedent)
        self.opening, self.within = before
        return node

    def _relative(self, antecedent: Nominal) -> Relative | None:
        self.room -= 1
        tags, u = antecedent.noun.tags, self.random()
        gap = Gap(antecedent.agreement)
        tense = self.pick((Tense.PAST, Tense.PAST, Tense.PRESENT, Tense.PROGRESSIVE, Tense.WAS_ING))
        if "person" in tags and u < 0.6:
            return Relative("who", self.predicate(self.verb(tense), gap, tense))
        if tags & {"portable"} and u < 0.25:
            place = VerbPhrase(v.BE, rest=[self.spot(antecedent)])
            return Relative("that", Clause(gap, [place], Tense.PAST if tense is Tense.PAST else Tense.PRESENT))
        if tags & {"place"} and u < 0.5 and "inside" in tags:
            verb = self.pick((v.LIVE, *_IN_PLACES))
            if verb.stative and tense in (Tense.PROGRESSIVE, Tense.WAS_ING):
                tense = Tense.PRESENT
            subject = self.person(short=True)
            return Relative("where", Clause(subject, [VerbPhrase(verb)], tense))
        verb_or_none = self.one_of(c.IN_RELATIVE[antecedent.noun])
        if verb_or_none is None:
            return None
        if tense in (Tense.PROGRESSIVE, Tense.WAS_ING) and (verb_or_none.punctual or verb_or_none.stative):
            tense = Tense.PAST
        subject = self.person(short=True)
        if isinstance(subject, Nominal) and subject.noun is antecedent.noun:
            subject = SHE
        return Relative("that", self.predicate(verb_or_none, subject, tense, gap=True, plain=True), object=True)


_BUY, _FIND, _TAKE, _WASH = named("buy find take wash")
_DEEDS = named("find see buy wash take eat visit write sell repair look open close")
_IN_PLACES = tuple(verb for verb in v.INTRANSITIVE if verb.en in ("sleep", "work", "sing", "dance"))
_DWELLINGS = tuple(n for n in x.NOUNS if n.tags & {"house", "castle", "hotel", "village", "city"})
_RIVER = next(n for n in x.NOUNS if n.en == "river")
_COLD, _HOT = x.fixed("cold", "froid", "0-0"), x.fixed("hot", "chaud", "0-0")


def _human(subject: Phrase | Gap) -> bool:
    """Tell whether the subject is a person, who may want things; a train leaves without eating."""
    if isinstance(subject, Nominal):
        return "person" in subject.noun.tags
    return not isinstance(subject, Gap)


def _deniable(subject: Phrase | Gap) -> bool:
    """Tell whether a negated verb may follow: "every child does not" would be unclear."""
    return not isinstance(subject, Nominal) or subject.determiner not in ("every", "all the", "a", "some", "many")


def _ends_in_relative(phrase: VerbPhrase) -> bool:
    """Tell whether anything further would seem to belong to a relative clause."""
    last = phrase.rest[-1].phrase if phrase.rest and isinstance(phrase.rest[-1], Prepositional) else phrase.direct
    return isinstance(last, Nominal) and last.relative is not None
