"""Draw the things of a scene and their positions: one alone, some around a large one, or a crowd side by side."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from regard.data.scenes.objects import COLOURS, CONTAINERS, SHAPES, SIZES, TEXTURES, Kind, Thing
from regard.data.scenes.portable_random import PortableRandom
from regard.data.scenes.relations import AXES, OPPOSITE
from regard.data.scenes.reserved_combinations import FREE, KINDS, RESERVED

ORDER: Final = ("inside", "above", "below", "left", "right")
"""The order in which captions name what is around a large thing."""
MOST: Final = 5
"""The maximum number of things in a scene."""
APART: Final = 0.08
"""The minimum horizontal distance between the things of a crowd."""
_GAP, _EDGE = 0.02, 0.01
_SMALL, _LARGE, _CONTAINER, _CONTAINED = (0.115, 0.13), (0.2, 0.225), (0.27, 0.29), (0.105, 0.118)
_LARGE_ONES: Final = {2: 2, 3: 2, 4: 2, 5: 1}
"""The maximum number of large things in a crowd, by its size."""
_ROOM: Final = {"circle": 0.9, "square": 0.72, "diamond": 0.61, "ring": 0.5}
"""The distance from the centre of a container to its nearest edge, in radii."""
_KINDS, _FREE, _RESERVED = frozenset(KINDS), frozenset(FREE), frozenset(RESERVED)


def lay_out(chance: PortableRandom, held_out: bool) -> tuple[str, tuple[Thing, ...]]:
    """Draw a layout (`alone`, `around` or `crowd`) and the things of a scene.

    With `held_out`, at least one thing is of a held-out kind; otherwise none is.
    """
    layout = chance.weighted((("alone", 0.08), ("around", 0.44), ("crowd", 0.48)))
    make: Callable[[PortableRandom, bool], list[Thing] | None] = {"alone": _alone, "around": _around, "crowd": _crowd}[
        layout
    ]
    while (things := make(chance, held_out)) is None:
        pass
    return layout, tuple(_finish(chance, thing) for thing in things)


def _finish(chance: PortableRandom, thing: Thing) -> Thing:
    """Draw the attributes that captions and questions do not mention."""
    phase = chance.random(), chance.random()
    hue = tuple(int(chance.between(-14, 15)) for _ in range(3))
    return replace(
        thing,
        tilt=chance.between(-0.07, 0.07),
        phase=phase,
        direction=int(chance.random() * 4),
        hue=(hue[0], hue[1], hue[2]),
    )


def _alone(chance: PortableRandom, held_out: bool) -> list[Thing]:
    size = chance.pick(SIZES)
    radius = chance.between(*(_SMALL if size == "small" else _LARGE))
    kind = chance.pick(RESERVED if held_out else FREE)
    x, y = (chance.between(radius + _EDGE, 1 - radius - _EDGE) for _ in range(2))
    return [Thing(kind, size, x, y, radius)]


# ------------------------------------------------------------------------------------------- around a large thing


def _around(chance: PortableRandom, held_out: bool) -> list[Thing] | None:
    """Put a large thing somewhere, and one to three small ones inside it, above, below, to its left or right."""
    places = _places(chance)
    kinds = _different_kinds(chance, len(places) + 1, held_out, "inside" in places)
    if kinds is None:
        return None
    radius = chance.between(*(_CONTAINER if "inside" in places else _LARGE))
    radii = [chance.between(*(_CONTAINED if place == "inside" else _SMALL)) for place in places]
    center = []
    for axis in (0, 1):
        low, high = radius + _EDGE, 1 - radius - _EDGE
        for place, small in zip(places, radii, strict=True):
            step = AXES.get(place, (0, 0))[axis]
            low, high = low + max(0, -step) * (2 * small + _GAP), high - max(0, step) * (2 * small + _GAP)
        if low > high:
            return None
        center.append(chance.between(low, high))
    things = [Thing(kinds[0], "large", center[0], center[1], radius)]
    for kind, place, small in zip(kinds[1:], places, radii, strict=True):
        within = 0 if place == "inside" else None
        x, y = _inside(chance, things[0], small) if within == 0 else _beside(chance, things[0], small, place)
        things.append(Thing(kind, "small", x, y, small, within=within))
    return things if _apart(things) else None


def _places(chance: PortableRandom) -> list[str]:
    count = chance.weighted(((1, 0.45), (2, 0.35), (3, 0.2)))
    drawn: list[str] = ["inside"] if chance.happens(0.4) else []
    for place in chance.shuffled(ORDER[1:]):
        crowded = "inside" in drawn and OPPOSITE[place] in drawn  # a container leaves no room on both sides
        if len(drawn) < count and not crowded:
            drawn.append(place)
    return sorted(drawn, key=ORDER.index)


def _inside(chance: PortableRandom, outer: Thing, radius: float) -> tuple[float, float]:
    play = (_ROOM[outer.shape] * outer.radius - radius - _GAP / 2) * 0.7
    return outer.x + chance.between(-play, play), outer.y + chance.between(-play, play)


def _beside(chance: PortableRandom, large: Thing, radius: float, place: str) -> tuple[float, float]:
    """Draw a place in one direction, clearly so: the offset to the side is far less than the distance."""
    across, down = AXES[place]
    room = (large.x if across < 0 else 1 - large.x) if across else (large.y if down < 0 else 1 - large.y)
    nearest, farthest = large.radius + radius + _GAP, room - radius - _EDGE
    distance = chance.between(nearest, max(nearest, farthest))
    aside = chance.between(-0.4, 0.4) * distance
    x, y = large.x + across * distance + aside * abs(down), large.y + down * distance + aside * abs(across)
    low, high = radius + _EDGE, 1 - radius - _EDGE
    return min(max(x, low), high), min(max(y, low), high)


def _different_kinds(chance: PortableRandom, count: int, held_out: bool, contains: bool) -> list[Kind] | None:
    """Draw kinds that differ in colour or shape; the first may have to contain the second, of another colour."""
    from_all = KINDS if held_out else FREE
    kinds = [chance.pick(from_all) for _ in range(count)]
    if held_out:
        one = chance.pick(range(1, count)) if contains else chance.pick(range(count))
        kinds[one] = chance.pick(RESERVED)
    if contains and (kinds[0].shape not in CONTAINERS or kinds[0].colour == kinds[1].colour):
        return None
    return kinds if len({(kind.colour, kind.shape) for kind in kinds}) == count else None


# ------------------------------------------------------------------------------------------------------- a crowd


def _crowd(chance: PortableRandom, held_out: bool) -> list[Thing] | None:
    """Put two to five things side by side, high and low, so that their order from left to right is clear."""
    count = chance.weighted(((2, 0.2), (3, 0.26), (4, 0.28), (5, 0.26)))
    sizes = ["small"] * count
    for i in chance.shuffled(range(count))[: _LARGE_ONES[count]]:
        sizes[i] = chance.pick(SIZES)
    radii = [chance.between(*(_SMALL if size == "small" else _LARGE)) for size in sizes]
    low, high = radii[0] + _EDGE, 1 - radii[-1] - _EDGE
    slack = high - low - APART * (count - 1)
    offsets = sorted(chance.random() * slack for _ in range(count))
    kinds = _like_kinds(chance, count, held_out)
    things: list[Thing] = []
    for i, (size, radius) in enumerate(zip(sizes, radii, strict=True)):
        x = min(max(low + i * APART + offsets[i], radius + _EDGE), 1 - radius - _EDGE)
        thing = _high_or_low(chance, things, Thing(kinds[i], size, x, 0.0, radius))
        if thing is None:
            return None
        things.append(thing)
    ordered = all(left.x + APART <= right.x for left, right in pairwise(things))
    return things if ordered else None


def _high_or_low(chance: PortableRandom, others: Sequence[Thing], thing: Thing) -> Thing | None:
    for _ in range(8):
        placed = replace(thing, y=chance.between(thing.radius + _EDGE, 1 - thing.radius - _EDGE))
        if _apart([*others, placed]):
            return placed
    return None


def _like_kinds(chance: PortableRandom, count: int, held_out: bool) -> list[Kind]:
    """Draw kinds that often share a shape, a colour, a texture, or all of them, so that there is something to count."""
    shared = {"shape": 0.0, "colour": 0.0, "texture": 0.0}
    for name in shared:
        shared[name] = 0.75 if chance.happens(0.4) else 0.0
    theme = Kind(chance.pick(COLOURS), chance.pick(TEXTURES), chance.pick(SHAPES))
    allowed = _KINDS if held_out else _FREE
    kinds: list[Kind] = []
    while len(kinds) < count:
        if kinds and chance.happens(0.12):
            kinds.append(chance.pick(kinds))
            continue
        other = Kind(chance.pick(COLOURS), chance.pick(TEXTURES), chance.pick(SHAPES))
        kind = Kind(
            theme.colour if chance.happens(shared["colour"]) else other.colour,
            theme.texture if chance.happens(shared["texture"]) else other.texture,
            theme.shape if chance.happens(shared["shape"]) else other.shape,
        )
        if kind in allowed:
            kinds.append(kind)
    if held_out and not _RESERVED & set(kinds):
        kinds[int(chance.random() * count)] = chance.pick(RESERVED)
    return kinds


def _apart(things: Sequence[Thing]) -> bool:
    """Return whether the last thing touches no other, except one that it is inside of."""
    for i, one in enumerate(things):
        for other in things[:i]:
            if one.within is None or things[one.within] is not other:
                least = one.radius + other.radius + _GAP
                if (one.x - other.x) ** 2 + (one.y - other.y) ** 2 < least * least:
                    return False
    return True
