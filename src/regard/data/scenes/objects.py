"""The things of a scene, with a shape, a colour, a texture and a size, and the words that describe them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

SHAPES: Final = ("circle", "square", "triangle", "diamond", "cross", "star", "ring", "heart")
COLOURS: Final = ("red", "orange", "yellow", "green", "cyan", "blue", "purple", "pink")
TEXTURES: Final = ("plain", "striped", "dotted", "checked")
SIZES: Final = ("small", "large")
CONTAINERS: Final = ("circle", "square", "diamond", "ring")
"""The shapes with room for another inside."""


class Kind(NamedTuple):
    """A combination of attributes, which is either in the training data or held out."""

    colour: str
    texture: str
    shape: str


@dataclass(frozen=True, slots=True)
class Thing:
    """One thing of a scene. Places and the radius are fractions of the picture's side; y points down."""

    kind: Kind
    size: str
    x: float
    y: float
    radius: float
    """The radius of the circle around it."""
    tilt: float = 0.0
    """The tangent of half its rotation angle."""
    within: int | None = None
    """The number of the thing that contains it."""
    phase: tuple[float, float] = (0.0, 0.0)
    """The phase of its texture; `direction` is that of its stripes."""
    direction: int = 0
    hue: tuple[int, int, int] = (0, 0, 0)
    """An offset added to the red, green and blue of its colour."""

    @property
    def colour(self) -> str:
        """The name of its colour."""
        return self.kind.colour

    @property
    def texture(self) -> str:
        """The name of its texture."""
        return self.kind.texture

    @property
    def shape(self) -> str:
        """The name of its shape."""
        return self.kind.shape


class Description(NamedTuple):
    """A description of things by attributes, each "" if not mentioned; without a shape, it fits any shape."""

    size: str = ""
    colour: str = ""
    texture: str = ""
    shape: str = ""

    def fits(self, thing: Thing) -> bool:
        """Return whether it is true of a thing."""
        size, colour, texture, shape = self
        kind = thing.kind
        return (
            (not shape or shape == kind[2])
            and (not colour or colour == kind[0])
            and (not texture or texture == kind[1])
            and (not size or size == thing.size)
        )

    def matches(self, things: Sequence[Thing]) -> tuple[int, ...]:
        """Return the numbers of the things that it is true of."""
        return tuple([i for i, thing in enumerate(things) if self.fits(thing)])

    def words(self, plural: bool = False, noun: str = "thing") -> tuple[str, ...]:
        """Return its words: size, colour, texture, shape."""
        named = self.shape or noun
        return (*filter(None, self[:3]), plural_of(named) if plural else named)


def described(thing: Thing, attributes: Sequence[str]) -> Description:
    """Describe a thing by the given attributes (`size`, `colour`, `texture`, `shape`)."""
    colour, texture, shape = thing.kind
    return Description(
        thing.size if "size" in attributes else "",
        colour if "colour" in attributes else "",
        texture if "texture" in attributes else "",
        shape if "shape" in attributes else "",
    )


def plural_of(noun: str) -> str:
    """Return the plural of a shape's name."""
    return noun + ("es" if noun.endswith("s") else "s")


def article_for(word: str) -> str:
    """Return the indefinite article that goes before a word."""
    return "an" if word[0] in "aeiou" else "a"
