"""Draws whole sentences: clauses, relative clauses, questions, requests, and how clauses join and nest.

A sentence has a time `Frame` that its clauses share, so that their tenses agree. Where the French tense depends on
the structure ("when she arrives" is "quand elle arrive" or "quand elle arrivera"), the structure can be read off the
English: a final subordinate clause belongs to the simple clause before it, a fronted one to what follows.
"""

import random

from regard.data.phrasebook import collocations as c
from regard.data.phrasebook import lexicon as x
from regard.data.phrasebook import verbs as v
from regard.data.phrasebook.clauses import Clauses, Frame
from regard.data.phrasebook.lexicon import Fixed
from regard.data.phrasebook.noun_phrases import fits
from regard.data.phrasebook.syntax_tree import (
    WHO,
    Clause,
    Linked,
    Nominal,
    Prepositional,
    Quality,
    Question,
    Request,
    Root,
    Sentence,
    Tense,
    VerbPhrase,
)
from regard.data.phrasebook.verbs import named

_FRAMES = (Frame.PRESENT, Frame.PAST, Frame.FUTURE, Frame.PRESENT, Frame.PAST)
_JOINTS = {
    Frame.PAST: ("and", "but", "so", "because", "because", "when", "when", "while", "that", "that"),
    Frame.PRESENT: ("and", "but", "so", "because", "because", "when", "if", "while", "that", "that", "although", "why"),
    Frame.FUTURE: ("and", "but", "so", "because", "because", "when", "when", "if", "if", "that", "although"),
    Frame.REPORTED: ("and", "but", "because", "because", "that"),
}
_AT_MOST = {"and": 99, "because": 2, "when": 2, "that": 2}
_EMBEDDED = frozenset({"when", "while", "if", "although", "why"})


class Sampler(Clauses):
    """Draws trees. `room` is the number of English words to aim at."""

    def __init__(self, rng: random.Random, train: bool) -> None:
        super().__init__(rng, train)
        self.used: dict[str, int] = {}

    def root(self, room: int) -> Root:
        """Draw a whole text of about `room` English words: a noun phrase, a statement, a question or a request."""
        self.room = room
        self.opening = True
        u = self.random()
        if room < 3 or (room < 7 and u < 0.2):
            return self.alone()
        if room < 16 and u < 0.36:
            return self.question()
        if room < 9 and u < 0.4:
            return self.request()
        # What is drawn falls a little short of its room: long sentences by a quarter.
        return self.sentence(room if room < 10 else room + room // 4, self.pick(_FRAMES))

    def alone(self) -> Nominal:
        """Draw a noun phrase that stands alone."""
        noun = self.pick(x.NOUNS)
        if self.room > 3 and self.chance(0.2) and noun.tags & {"door", "window", "key", "garden"}:
            node = Nominal(noun, self.chance(0.3))
            node.place = Prepositional("of", "de", self.nominal(self.pick(_BUILDINGS), "place", "definite"))
            return node
        return self.nominal(noun, "alone" if self.room > 2 else "bare")

    # ------------------------------------------------------------------------------------- joined clauses

    def sentence(self, room: int, frame: Frame, fronting: bool = True) -> Sentence:
        """Draw one clause, or, where there is room, several."""
        if room < 9 or (room < 17 and self.chance(0.5)):
            return self.clause(room, frame)
        joint = self._joint(frame, room)
        if joint == "that" and frame is Frame.FUTURE and not fronting:
            joint = "and"  # "he says that" is no future, and a fronted "when" must find one
        if joint in ("that", "why"):
            return self.reporting(room, frame, joint)
        if joint in _EMBEDDED:
            return self.subordinate(room, frame, joint, fronting and self.chance(0.5))
        first = min(int(room * (0.35 + 0.3 * self.random())), 9 + int(9 * self.random()))
        # Only a fronted subordinate clause may stand in the left part: a final one would seem to run on.
        if fronting and joint != "because" and first > 13:
            embedded = self._joint(frame, first)
            main: Sentence = (
                self.subordinate(first, frame, embedded, True, simple=True)
                if embedded in _EMBEDDED and embedded != "why"
                else self.clause(first, frame)
            )
        else:
            main = self.clause(first, frame)
        self.opening = False
        return Linked(joint, main, self.sentence(room - first - 1, self._later(frame, joint)))

    def _joint(self, frame: Frame, room: int) -> str:
        """Draw how to go on; what was used often enough already becomes "and"."""
        joint = self.pick(_JOINTS[frame])
        if joint in _EMBEDDED and room > 28:
            joint = "because"
        self.used[joint] = self.used.get(joint, 0) + 1
        return joint if self.used[joint] <= _AT_MOST.get(joint, 1) else "and"

    def _later(self, frame: Frame, joint: str) -> Frame:
        if joint == "because" and frame is Frame.FUTURE and self.chance(0.5):
            return Frame.PRESENT
        return frame

    def reporting(self, room: int, frame: Frame, joint: str) -> Clause:
        """Draw "he says that …" or "he does not know why …"."""
        self.room, self.opening = 3, False
        subject = self.person(short=True)
        if joint == "why":
            inner: Sentence = self.clause(room - 6, Frame.PRESENT)
            tense, polarity, verb, joint = Tense.PRESENT, "not", v.KNOW_THAT, self.pick(("why", "if"))
            return Clause(subject, [VerbPhrase(verb, joint=joint, clause=inner)], tense, polarity)
        past = frame in (Frame.PAST, Frame.REPORTED)
        verb = self.pick((v.SAY, v.SAY, v.THINK, v.KNOW_THAT, v.HOPE))
        if verb is v.HOPE and past and room > 14:
            verb = v.SAY
        self.timeless = self.timeless or past
        told = frame if frame is not Frame.PAST else Frame.REPORTED
        if verb is v.HOPE and not past:
            told = Frame.FUTURE
        inner = (
            self.sentence(room - 3, told) if verb is not v.HOPE or not past else self.clause(room - 3, told, hoped=True)
        )
        if frame is Frame.REPORTED and verb is v.SAY:
            verb = v.THINK
        tense = Tense.PAST if past else Tense.PRESENT
        return Clause(subject, [VerbPhrase(verb, joint="that", clause=inner)], tense)

    def subordinate(self, room: int, frame: Frame, joint: str, fronted: bool, simple: bool = False) -> Linked:
        """Draw a main clause and one with when, if, while or although; with `simple` the main clause is but one."""
        self.opening = self.opening and not fronted
        share = max(3, min(int(room * (0.3 + 0.25 * self.random())), 12))
        if fronted:
            other = self._circumstance(share, frame, joint)
        left = room - share - 1
        if joint == "while" or (joint == "when" and frame is not Frame.FUTURE):
            main: Sentence = self.clause(left, frame, joint)
        elif fronted and not simple:
            main = self.sentence(left, frame, fronting=False)
        else:
            main = self.clause(left, frame)
        if not fronted:
            other = self._circumstance(share, frame, joint)
        return Linked(joint, main, other, fronted)

    def _circumstance(self, room: int, frame: Frame, joint: str) -> Clause:
        timeless, self.timeless, self.opening = self.timeless, True, False
        node = self._untimed(room, frame, joint)
        self.timeless = timeless
        return node

    def _untimed(self, room: int, frame: Frame, joint: str) -> Clause:
        if joint == "although":
            self.room = room
            subject = self.person(short=True)
            quality = self.quality(subject) or Quality((_TIRED if fits(_TIRED, subject) else _SICK,))
            return Clause(subject, [VerbPhrase(v.BE, quality=quality)], Tense.CONCEDED)
        if not self.weathered and self.chance(0.25):
            return self.weather(frame, joint)
        if joint == "while":
            return self.doing(room, Tense.WAS_ING if frame is Frame.PAST else Tense.PROGRESSIVE)
        if joint == "when" and frame is Frame.FUTURE:
            return self.doing(room, Tense.AFTER_WHEN)
        return self.doing(room, Tense.PAST if frame is Frame.PAST else Tense.PRESENT)

    # --------------------------------------------------------------------------------- questions and requests

    def question(self) -> Question:
        """Draw a question of one of the kinds that `Question` knows, or one about "who"."""
        u, room = self.random(), self.room
        frame = self.pick((Frame.PRESENT, Frame.PAST, Frame.FUTURE))
        if u < 0.1:
            thing = self.nominal(self.pick(c.SMALL_THINGS), "subject", "definite")
            return Question(
                Clause(thing, [VerbPhrase(v.BE)], Tense.PAST if frame is Frame.PAST else Tense.PRESENT), "where"
            )
        tense = self.tense(frame)
        if tense in (Tense.USED_TO, Tense.PERFECT):
            tense = Tense.PAST
        self.room -= 2
        verb = self.verb(tense)
        if u < 0.25:
            verb = self.pick(v.TRANSITIVE[5:]) if tense is not Tense.PROGRESSIVE else verb
            if tense is Tense.WAS_ING and verb.punctual:
                tense = Tense.PAST
            return Question(self._asked(self.predicate(verb, WHO, tense)))
        if u < 0.5:
            return self._object_question(tense)
        node = self._asked(self.predicate(verb, self.agent(verb), tense))
        word = "" if u < 0.75 else self.pick(("why", "where", "when"))
        if word == "where" and (node.phrases[0].rest or "place" not in verb.flags):
            word = "why"
        if word == "when" and (
            node.tense is Tense.PROGRESSIVE or verb.stative or any(isinstance(r, Fixed) for r in node.phrases[0].rest)
        ):
            word = "why"
        self.room = room
        return Question(node, word)

    def _asked(self, node: Clause) -> Clause:
        """Take out what a question cannot have."""
        node.polarity, node.front, node.adverb = "", None, None
        return node

    def _object_question(self, tense: Tense) -> Question:
        verb = self.pick(v.TRANSITIVE[5:])
        if tense in (Tense.PROGRESSIVE, Tense.WAS_ING) and verb.punctual:
            tense = Tense.PAST
        noun = self.object_of(verb)
        subject = self.person(short=True)
        node = self._asked(self.predicate(verb, subject, tense, gap=True, plain=True))
        if "mass" in noun.tags or (self.chance(0.35) and not verb.objects <= _LIVING):
            return Question(node, "what")
        if self.chance(0.5) and "single" not in noun.tags:
            return Question(node, "which", Nominal(noun, True, "how many"))
        return Question(node, "which", Nominal(noun, self.chance(0.3) and "single" not in noun.tags, "which"))

    def request(self) -> Request:
        """Draw an imperative."""
        verb = self.pick(_ASKED)
        noun = self.object_of(verb)
        negated = self.chance(0.4)
        thing = self.thing(verb, noun, "definite" if negated else "any", negated)
        return Request(VerbPhrase(verb, thing), negated)


_ASKED = named("open close wash take eat buy sell repair look visit")
_TIRED, _SICK = (next(a for a in x.ADJECTIVES if a.en == name) for name in ("tired", "sick"))
_LIVING = frozenset({"person", "animal", "dog", "cat"})  # nobody asks "what" of a verb whose object is always alive
_BUILDINGS = tuple(n for n in x.NOUNS if n.tags & {"house", "castle", "hotel", "museum", "church"})
