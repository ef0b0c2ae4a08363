"""How two things of a scene stand to each other, where that is beyond doubt."""

from collections.abc import Sequence
from typing import Final

from regard.data.scenes.objects import Thing

RELATIONS: Final = {
    "inside": ("inside",),
    "above": ("above",),
    "below": ("below",),
    "left": ("to", "the", "left", "of"),
    "right": ("to", "the", "right", "of"),
}
"""Each relation, and the words that say it before the thing that it is a relation to."""
OPPOSITE: Final = {"above": "below", "below": "above", "left": "right", "right": "left"}
AXES: Final = {"above": (0, -1), "below": (0, 1), "left": (-1, 0), "right": (1, 0)}
_WITHIN, _BEYOND = 0.55, 4.0
"""Tangents of angles from an axis: within 29° a thing is clearly in that direction, beyond 76° it clearly is not."""


def holds(things: Sequence[Thing], first: int, relation: str, second: int) -> bool | None:
    """Tell whether the first thing is in a relation to the second; None where people might not agree."""
    one, other = things[first], things[second]
    if relation == "inside":
        return one.within == second
    if one.within == second or other.within == first:
        return None
    ahead, aside = AXES[relation], AXES[relation][::-1]
    across, down = one.x - other.x, one.y - other.y
    along = across * ahead[0] + down * ahead[1]
    beside = abs(across * aside[0] + down * aside[1])
    if along <= 0 or beside >= _BEYOND * along:
        return False
    return True if beside <= _WITHIN * along else None
