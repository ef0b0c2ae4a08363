"""Questions about a scene with answers, balanced so that the words alone do not reveal the answer.

For each question the answer that is wanted is drawn first, and then a question that has it, so that yes is as likely
as no and small numbers are about as likely as large ones, whatever the words. What is denied is mostly a near miss: the
colour of one thing with the shape of another. Things are told apart by as few words as will do, never by the attribute
that is asked for; and a relation is asked for only where nobody could doubt it.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from typing import Final

from regard.data.scenes.captions import NUMBERS
from regard.data.scenes.objects import (
    COLOURS,
    SHAPES,
    SIZES,
    TEXTURES,
    Description,
    Thing,
    article_for,
    described,
)
from regard.data.scenes.portable_random import PortableRandom
from regard.data.scenes.relations import AXES, RELATIONS, holds
from regard.data.scenes.reserved_combinations import RESERVED, is_reserved, speaks_of_reserved

QUESTION_KINDS: Final = ("existence", "count", "colour", "shape", "comparison", "spatial")
ANSWERS: Final = ("yes", "no", *NUMBERS, *COLOURS, *SHAPES)
"""All possible answers, in the order that all models use."""
EACH: Final = 2
"""The maximum number of questions of a kind about one scene."""
_TRIES: Final = 5

_VALUES: Final = {"size": SIZES, "colour": COLOURS, "texture": TEXTURES, "shape": SHAPES}
_ASKED_FOR: Final = (
    (("colour", "shape"), 0.4),
    (("texture", "shape"), 0.14),
    (("colour", "texture"), 0.1),
    (("size", "shape"), 0.08),
    (("size", "colour"), 0.08),
    (("shape",), 0.1),
    (("colour",), 0.1),
)
"""The attributes that questions identify things by, with frequencies."""
_EXACTLY: Final = (("colour", "texture", "shape"), 0.15)
_COUNTED_BY: Final = (*_ASKED_FOR, _EXACTLY, (("texture",), 0.06), (("size",), 0.03))
_ALL_OF_THEM: Final = ((), 0.03)
_WANTED_NUMBERS: Final = (1.2, 1.0, 2.0, 3.0, 4.0, 4.0)
"""Weights of the numbers to ask for: few scenes allow large numbers, so they are preferred there."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a scene, with its answer and gold regions."""

    kind: str
    words: tuple[str, ...]
    answer: str
    things: tuple[int, ...]
    """The numbers of the things that decide the answer: those that exist, are counted or compared, or are named to
    identify another. Empty if the answer is that there are none."""
    held_out: bool
    """Whether it names a held-out combination or is about a held-out kind of thing."""
    named: tuple[tuple[int, ...], ...]
    """For each word, the things that its noun phrase fits: those of "red circle" for both words. Else empty."""

    @property
    def text(self) -> str:
        """The words joined by spaces, with a question mark."""
        return " ".join(self.words) + "?"


def questions_about(things: Sequence[Thing], held_out: bool, chance: PortableRandom) -> tuple[Question, ...]:
    """Draw up to two questions of each kind that the scene allows."""
    asker = _Asker(things, held_out, chance)
    ask: dict[str, Callable[[], Question | None]] = {
        "existence": asker.existence,
        "count": asker.count,
        "colour": lambda: asker.attribute("colour"),
        "shape": lambda: asker.attribute("shape"),
        "comparison": asker.comparison,
        "spatial": asker.spatial,
    }
    found: dict[tuple[str, ...], Question] = {}
    for kind in QUESTION_KINDS:
        before = len(found)
        for _ in range(_TRIES):
            question = ask[kind]() if len(found) < before + EACH else None
            if question is not None:
                found.setdefault(question.words, question)
    return tuple(found.values())


class _Asker:
    """Draws questions about one scene. A method returns None if the scene does not allow the question it drew."""

    def __init__(self, things: Sequence[Thing], held_out: bool, chance: PortableRandom) -> None:
        self.things = things
        self.held_out = held_out
        self.chance = chance
        self.reserved = [i for i, thing in enumerate(things) if is_reserved(thing.kind)]
        self._references: dict[tuple[int, str], list[Description]] = {}

    # ------------------------------------------------------------------------------------ existence and number

    def existence(self) -> Question | None:
        """Ask whether there is a red circle, or are any red circles."""
        attributes = self.chance.weighted((*_ASKED_FOR, _EXACTLY))
        there = self.chance.happens(0.5)
        description = described(self.things[self.one()], attributes) if there else self.absent(attributes, 0.75)
        if description is None:
            return None
        if self.chance.happens(0.5):
            words = description.words()
            asked = ("is", "there", article_for(words[0]), *words)
        else:
            asked = ("are", "there", "any", *description.words(plural=True))
        matches = description.matches(self.things)
        return self.question("existence", asked, _yes(there), matches, description)

    def absent(self, attributes: Sequence[str], new: float) -> Description | None:
        """Describe something that is not there: one thing with an attribute of another, or a held-out combination.

        `new` is how often the latter, in scenes with such combinations: there, those that are named are often there.
        """
        for _ in range(8):
            if self.held_out and self.chance.happens(new):
                kind = self.chance.pick(RESERVED)
                near = Description(colour=kind.colour, shape=kind.shape)
                near = near if speaks_of_reserved(near) else near._replace(texture=kind.texture)
            else:
                near = self.near_miss(attributes)
            if not near.matches(self.things) and (self.held_out or not speaks_of_reserved(near)):
                return near
        return None

    def near_miss(self, attributes: Sequence[str]) -> Description:
        """Describe a thing with one attribute changed, to that of another thing or to any. It may be there."""
        changed = self.chance.pick([name for name in attributes if name != "size"] or ["size"])
        if len(self.things) == 1 or len(attributes) == 1 or self.chance.happens(0.3):
            value = self.chance.pick(_VALUES[changed])
        else:
            value = getattr(self.chance.pick(self.things), changed)
        return described(self.chance.pick(self.things), attributes)._replace(**{changed: value})

    def count(self) -> Question | None:
        """Ask how many red circles there are."""
        found = dict(self._counted)
        if (nowhere := self.absent(self.chance.weighted(_COUNTED_BY), 0.3)) is not None:
            found[0] = {nowhere: 1.0}
        number = self.chance.weighted([(number, _WANTED_NUMBERS[number]) for number in sorted(found)])
        description = self.chance.weighted(list(found[number].items()))
        asked = ("how", "many", *description.words(plural=True), "are", "there")
        return self.question("count", asked, NUMBERS[number], description.matches(self.things), description)

    @cached_property
    def _counted(self) -> dict[int, dict[Description, float]]:
        """By number the descriptions that fit so many things, and how often to ask for each."""
        found: dict[int, dict[Description, float]] = {}
        for attributes, weight in (*_COUNTED_BY, _ALL_OF_THEM):
            for description, number in Counter(described(thing, attributes) for thing in self.things).items():
                found.setdefault(number, {})[description] = weight
        return found

    # -------------------------------------------------------------------------------- what colour, what shape

    def attribute(self, name: str) -> Question | None:
        """Ask what colour the striped circle is, or what shape the thing above the red square."""
        if len(self.things) > 2 and self.chance.happens(0.35):
            return self._attribute_by_relation(name)
        thing = self.one()
        reference = self.reference(thing, name)
        if reference is None:
            return None
        asked = ("what", name, "is", "the", *reference.words())
        return self.question(name, asked, getattr(self.things[thing], name), (thing,), reference)

    def _attribute_by_relation(self, name: str) -> Question | None:
        thing, anchor = self.pair()
        reference = self.reference(anchor)
        relation = next((relation for relation in RELATIONS if holds(self.things, thing, relation, anchor)), None)
        if reference is None or relation is None:
            return None
        others = [i for i in range(len(self.things)) if i not in (thing, anchor)]
        if not all(holds(self.things, i, relation, anchor) is False for i in others):
            return None
        asked = ("what", name, "is", "the", "thing", *RELATIONS[relation], "the", *reference.words())
        return self.question(name, asked, getattr(self.things[thing], name), (thing, anchor), reference)

    # ------------------------------------------------------------------------------------------- comparison

    def comparison(self) -> Question | None:
        """Draw one of the ways to compare."""
        return self.chance.pick((self._numbers, self._sizes, self._likeness))()

    def _numbers(self) -> Question | None:
        """Ask whether there are more circles than squares, where both answers could be had."""
        name = self.chance.pick(("shape", "colour", "texture"))
        there = sorted({getattr(thing, name) for thing in self.things})
        counted = {value: Description(**{name: value}).matches(self.things) for value in there}
        form, joint = self.chance.pick((("more", "than"), ("fewer", "than"), ("as many", "as")))
        pairs: dict[bool, list[tuple[str, str]]] = {True: [], False: []}
        for first, second in permutations(there, 2):
            one, other = len(counted[first]), len(counted[second])
            truth = one == other if form == "as many" else one > other if form == "more" else one < other
            pairs[truth].append((first, second))
        truth = self.chance.happens(0.5)
        if not pairs[True] or not pairs[False]:
            return None
        first, second = self.chance.pick(pairs[truth])
        descriptions = [Description(**{name: value}) for value in (first, second)]
        words = [description.words(plural=True) for description in descriptions]
        asked = ("are", "there", *form.split(), *words[0], joint, *words[1])
        return self.question("comparison", asked, _yes(truth), (*counted[first], *counted[second]), *descriptions)

    def _sizes(self) -> Question | None:
        """Ask whether the red circle is larger than the square: only of a small thing and a large one."""
        first, second = self.pair()
        references = self.reference(first, "size"), self.reference(second, "size")
        sizes = self.things[first].size, self.things[second].size
        if references[0] is None or references[1] is None or sizes[0] == sizes[1]:
            return None
        form = self.chance.pick(("larger", "smaller"))
        truth = (sizes[0] == "large") == (form == "larger")
        asked = ("is", "the", *references[0].words(), form, "than", "the", *references[1].words())
        return self.question("comparison", asked, _yes(truth), (first, second), references[0], references[1])

    def _likeness(self) -> Question | None:
        """Ask whether the circle is the same colour as the square, where both answers could be had."""
        name = self.chance.pick(("colour", "shape", "size"))
        references = [self.reference(i, name) for i in range(len(self.things))]
        pairs: dict[bool, list[tuple[int, int]]] = {True: [], False: []}
        for first, second in permutations(range(len(self.things)), 2):
            if references[first] and references[second]:
                alike = getattr(self.things[first], name) == getattr(self.things[second], name)
                pairs[alike].append((first, second))
        truth = self.chance.happens(0.5)
        if not pairs[True] or not pairs[False]:
            return None
        first, second = self.chance.pick(pairs[truth])
        one, other = references[first], references[second]
        assert one is not None
        assert other is not None
        asked = ("is", "the", *one.words(), "the", "same", name, "as", "the", *other.words())
        return self.question("comparison", asked, _yes(truth), (first, second), one, other)

    # ---------------------------------------------------------------------------------------------- spatial

    def spatial(self) -> Question | None:
        """Ask whether the red circle is above the square, or whether there is a star inside the ring."""
        if len(self.things) < 2:
            return None
        truth = self.chance.happens(0.5)
        inner = next((i for i, thing in enumerate(self.things) if thing.within is not None), None)
        outer = None if inner is None else self.things[inner].within
        if inner is not None and outer is not None and len(self.things) > 2 and self.chance.happens(0.5):
            others = [i for i in range(len(self.things)) if i not in (inner, outer)]
            return self._related(inner if truth else self.chance.pick(others), "inside", outer, truth)
        first, second = self.pair()
        standing = {name: holds(self.things, first, name, second) for name in AXES}
        if True not in standing.values():  # so that yes and no are asked about the same pairs
            return None
        return self._related(first, self.chance.pick([n for n in AXES if standing[n] is truth]), second, truth)

    def _related(self, first: int, relation: str, second: int, truth: bool) -> Question | None:
        subject, reference = self.reference(first), self.reference(second)
        if subject is None or reference is None:
            return None
        ending = (*RELATIONS[relation], "the", *reference.words())
        anything = described(self.things[first], self.chance.pick((("shape",), ("colour",), ("colour", "shape"))))
        fitting = [i for i in anything.matches(self.things) if i != second]
        standing = [holds(self.things, i, relation, second) for i in fitting]
        clear = True in standing if truth else True not in standing and None not in standing
        if clear and self.chance.happens(0.4):
            words = anything.words()
            asked = ("is", "there", article_for(words[0]), *words, *ending)
            decide = [i for i, stands in zip(fitting, standing, strict=True) if stands is truth]
            return self.question("spatial", asked, _yes(truth), (*decide, second), anything, reference)
        asked = ("is", "the", *subject.words(), *ending)
        return self.question("spatial", asked, _yes(truth), (first, second), subject, reference)

    # ------------------------------------------------------------------------------------------ what all use

    def one(self) -> int:
        """Draw a thing to ask about; where combinations are held out, more often one of these."""
        if self.reserved and self.chance.happens(0.5):
            return self.chance.pick(self.reserved)
        return int(self.chance.random() * len(self.things))

    def pair(self) -> tuple[int, int]:
        """Draw two different things, if there are two."""
        first = self.one()
        others = [i for i in range(len(self.things)) if i != first] or [first]
        pair = first, self.chance.pick(others)
        return pair if self.chance.happens(0.5) else pair[::-1]

    def reference(self, thing: int, without: str = "") -> Description | None:
        """Describe a thing so that no other could be meant, by as few attributes as will do."""
        known = (thing, without)
        if known not in self._references:
            self._references[known] = self._shortest(thing, [name for name in _VALUES if name != without])
        fitting = self._references[known]
        return self.chance.pick(fitting) if fitting else None

    def _shortest(self, thing: int, attributes: Sequence[str]) -> list[Description]:
        for count in range(1, len(attributes) + 1):
            fitting = [
                description
                for names in combinations(attributes, count)
                if (description := described(self.things[thing], names)).matches(self.things) == (thing,)
            ]
            if fitting:
                return fitting
        return []

    def question(
        self, kind: str, words: tuple[str, ...], answer: str, things: tuple[int, ...], *named: Description
    ) -> Question:
        """Put a question together."""
        held_out = any(i in self.reserved for i in things) or any(map(speaks_of_reserved, named))
        return Question(kind, words, answer, tuple(sorted(set(things))), held_out, self.names(words, named))

    def names(self, words: tuple[str, ...], named: Sequence[Description]) -> tuple[tuple[int, ...], ...]:
        """Find descriptions among the words, one after the other, and tell for each word what its description fits."""
        found: list[tuple[int, ...]] = [()] * len(words)
        first = 0
        for description in named:
            forms = [description.words(plural=plural) for plural in (False, True)]
            length = len(forms[0])
            first = next(i for i in range(first, len(words)) if words[i : i + length] in forms)
            found[first : first + length] = [description.matches(self.things)] * length
            first += length
        return tuple(found)


def _yes(truth: bool) -> str:
    return "yes" if truth else "no"
