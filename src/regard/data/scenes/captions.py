"""Captions: all sentences of the grammar about a scene, with the things that each word names.

The first words choose the kind of sentence, and the scene then determines the order: what is around a large thing in
the order of `layout.ORDER`, a crowd from left to right, groups by falling number and then alphabetically. So given the
beginning, the scene determines every next word, and a generated caption can be looked up among the correct ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from regard.data.scenes.layout import ORDER
from regard.data.scenes.objects import Description, Thing, article_for, described, plural_of
from regard.data.scenes.relations import OPPOSITE, RELATIONS, holds

NUMBERS: Final = ("none", "one", "two", "three", "four", "five")
_BESIDE_IT: Final = {
    "inside": "inside it",
    "above": "above it",
    "below": "below it",
    "left": "to its left",
    "right": "to its right",
}


@dataclass(frozen=True, slots=True)
class Caption:
    """A caption of a scene, with the things that each word names."""

    words: tuple[str, ...]
    things: tuple[tuple[int, ...], ...]
    """The numbers of the things that each word names. Articles, conjunctions and the like name nothing; a word for a
    relation or a number names all the things that it joins."""

    @property
    def text(self) -> str:
        """The words with spaces between; there is no punctuation."""
        return " ".join(self.words)


class _Speech:
    """A caption under construction."""

    def __init__(self) -> None:
        self._said: list[tuple[str, tuple[int, ...]]] = []

    def say(self, words: str | Sequence[str], *things: int) -> "_Speech":
        """Add words; each names the things, except for function words."""
        for word in words.split() if isinstance(words, str) else words:
            self._said.append((word, () if word in _FUNCTION_WORDS else things))
        return self

    def name(self, description: Description, *things: int, article: str = "") -> "_Speech":
        """Add a noun phrase with its article: the indefinite one, or what is given."""
        words = description.words(noun="shape")
        return self.say(article or article_for(words[0])).say(words, *things)

    def end(self) -> Caption:
        """Return the caption."""
        words, things = zip(*self._said, strict=True)
        return Caption(words, things)


_FUNCTION_WORDS: Final = frozenset(
    ("a", "an", "the", "there", "is", "are", "and", "with", "to", "of", "from", "then", "only")
)


def captions_of(layout: str, things: Sequence[Thing]) -> tuple[Caption, ...]:
    """Return all the captions of a scene, at least three."""
    if layout == "alone":
        return _of_one(things[0])
    grouped = _by_shape(things), _by_colour(things)
    if layout == "around":
        return *_of_what_stands_around(things), *grouped
    return _from_left_to_right(things), *grouped, *_of_the_same_colour(things)


def _whole(thing: Thing) -> Description:
    """Describe a thing by all attributes, except a plain texture."""
    return Description(thing.size, thing.colour, thing.texture if thing.texture != "plain" else "", thing.shape)


def _of_one(thing: Thing) -> tuple[Caption, ...]:
    whole = _whole(thing)
    return (
        _Speech().name(whole, 0).end(),
        _Speech().say("there is").name(described(thing, ("colour", "shape")), 0).end(),
        _Speech().say("the only").say("shape is", 0).name(whole, 0).end(),
    )


def _of_what_stands_around(things: Sequence[Thing]) -> tuple[Caption, ...]:
    places = [next(place for place in ORDER if holds(things, i, place, 0)) for i in range(1, len(things))]
    short = [described(thing, ("colour", "shape")) for thing in things]
    whole = _Speech().name(_whole(things[0]), 0).say("with")
    turned = _Speech().name(short[0], 0, article="the").say("is")
    for i, place in enumerate(places, start=1):
        if i > 1:
            whole.say("and")
            turned.say("and")
        whole.name(_whole(things[i]), i)
        for word in _BESIDE_IT[place].split():
            whole.say(word, *((0,) if word in ("it", "its") else (i, 0)))
        turned.say("around" if place == "inside" else RELATIONS[OPPOSITE[place]], 0, i)
        turned.name(short[i], i, article="the")
    first = _Speech().say("there is").name(short[1], 1).say(RELATIONS[places[0]], 1, 0).name(short[0], 0)
    return whole.end(), first.end(), turned.end()


def _from_left_to_right(things: Sequence[Thing]) -> Caption:
    speech = _Speech().say("from left to right")
    for i, thing in enumerate(things):
        if i:
            speech.say("then")
        speech.name(_whole(thing), i)
    return speech.end()


def _groups(things: Sequence[Thing], attribute: str) -> list[tuple[str, tuple[int, ...]]]:
    names = {getattr(thing, attribute) for thing in things}
    found = [(name, Description(**{attribute: name}).matches(things)) for name in names]
    return sorted(found, key=lambda group: (-len(group[1]), group[0]))


def _by_shape(things: Sequence[Thing]) -> Caption:
    groups = _groups(things, "shape")
    speech = _Speech().say("there are" if len(groups[0][1]) > 1 else "there is")
    for place, (shape, members) in enumerate(groups):
        if place:
            speech.say("and")
        if len(members) == 1:
            speech.name(Description(shape=shape), *members)
        else:
            speech.say((NUMBERS[len(members)], plural_of(shape)), *members)
    return speech.end()


def _by_colour(things: Sequence[Thing]) -> Caption:
    groups = _groups(things, "colour")
    everything = tuple(range(len(things)))
    if len(groups) == 1:
        all_of = "both" if len(things) == 2 else f"all {NUMBERS[len(things)]}"
        return _Speech().say(f"{all_of} shapes are {groups[0][0]}", *everything).end()
    speech = _Speech()
    for place, (colour, members) in enumerate(groups):
        noun = ("shapes" if len(members) > 1 else "shape") if place == 0 else ""
        verb = "are" if len(members) > 1 else "is"
        speech.say("and" if place else "").say(f"{NUMBERS[len(members)]} {noun} {verb} {colour}", *members)
    return speech.end()


def _of_the_same_colour(things: Sequence[Thing]) -> tuple[Caption, ...]:
    """Describe the one pair that shares a colour, if there is exactly one, and each is the only one of its shape."""
    pairs = [members for _, members in _groups(things, "colour") if len(members) > 1]
    if len(pairs) != 1 or len(pairs[0]) != 2:
        return ()
    shapes = [Description(shape=things[i].shape) for i in pairs[0]]
    if any(len(shape.matches(things)) > 1 for shape in shapes):
        return ()
    speech = _Speech().name(shapes[0], pairs[0][0], article="the").say("and")
    return (speech.name(shapes[1], pairs[0][1], article="the").say("are the same colour", *pairs[0]).end(),)
