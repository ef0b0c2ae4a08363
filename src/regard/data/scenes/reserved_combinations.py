"""Which combinations of colour, texture and shape never occur in training: not in pictures, captions or questions."""

from collections.abc import Iterable
from itertools import product
from typing import Final
from zlib import crc32

from regard.data.scenes.objects import COLOURS, SHAPES, TEXTURES, Description, Kind, Thing

RESERVED_PAIRS: Final = frozenset(
    {
        ("red", "star"),
        ("orange", "diamond"),
        ("yellow", "ring"),
        ("green", "heart"),
        ("cyan", "triangle"),
        ("blue", "square"),
        ("purple", "circle"),
        ("pink", "cross"),
    }
)
"""Each colour and each shape occurs once: a model has seen red things and stars, but no red star of any texture."""


def is_reserved(kind: Kind) -> bool:
    """Return whether a kind of thing is held out of training: by its colour and shape, or by all three attributes.

    A tenth of the triples of colour, texture and shape are reserved, chosen by a checksum, but never plain ones, since
    captions do not mention a plain texture.
    """
    pair = (kind.colour, kind.shape)
    return pair in RESERVED_PAIRS or (kind.texture != "plain" and crc32(" ".join(kind).encode()) % 10 == 0)


KINDS: Final = tuple(Kind(*parts) for parts in product(COLOURS, TEXTURES, SHAPES))
FREE: Final = tuple(kind for kind in KINDS if not is_reserved(kind))
RESERVED: Final = tuple(kind for kind in KINDS if is_reserved(kind))
_RESERVED: Final = frozenset(RESERVED)


def holds_reserved(things: Iterable[Thing]) -> bool:
    """Return whether a scene has a thing of a held-out kind."""
    return any(thing.kind in _RESERVED for thing in things)


def speaks_of_reserved(description: Description) -> bool:
    """Return whether a description names a held-out combination, whether or not it is in the scene."""
    _, colour, texture, shape = description
    return (colour, shape) in RESERVED_PAIRS or Kind(colour, texture, shape) in _RESERVED
