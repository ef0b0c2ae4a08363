"""Paints a scene: every thing is sampled at 4 × 4 points in each pixel, and pixels are the mean."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.data.scenes.objects import Thing
from regard.data.scenes.portable_random import PortableRandom

Points = NDArray[Any]
"""One number (float32) for each sampled point: its offset from the middle of a thing, in radii."""
Where = NDArray[Any]
"""Whether something is so, for each point."""

_POINTS: Final = 4
_RGB: Final = {
    "red": (214, 32, 32),
    "orange": (246, 132, 16),
    "yellow": (242, 212, 28),
    "green": (34, 150, 54),
    "cyan": (36, 196, 210),
    "blue": (38, 70, 206),
    "purple": (126, 44, 158),
    "pink": (246, 128, 186),
}
_SHADE: Final = 0.4
"""How much of its light the second tone of a texture keeps."""


class Painting(NamedTuple):
    """A picture of `size` × `size` pixels and where its things are to be seen."""

    image: NDArray[np.uint8]
    """Height × width × (red, green, blue)."""
    masks: NDArray[np.bool_]
    """Things × height × width: the pixels that show mostly this thing. No pixel belongs to two."""
    boxes: NDArray[np.int64]
    """Things × (left, top, right, bottom), in pixels; right and bottom lie just beyond. As tight as the mask."""


def on_grid(masks: NDArray[np.bool_], side: int) -> NDArray[np.float32]:
    """Return how much of each cell of a grid each thing covers: things × side × side, from 0 to 1.

    So a look over a grid of regions can be held against the things; cells may be any fraction of pixels.
    """
    pixels = masks.shape[-1]
    edges = np.arange(side + 1) * (pixels / side)
    starts = np.arange(pixels)
    overlap = np.minimum(edges[1:, None], starts + 1) - np.maximum(edges[:-1, None], starts)
    shares = np.clip(overlap, 0, None).astype(np.float32) * np.float32(side / pixels)  # cells × pixels
    covered: NDArray[np.float32] = shares @ masks.astype(np.float32) @ shares.T
    return covered


def paint(things: Sequence[Thing], size: int, chance: PortableRandom) -> Painting:
    """Paint things on a ground that is drawn by chance, as is a little noise; what is inside another goes over it."""
    canvas = _ground(size, chance)
    covers = np.zeros((len(things), size, size), np.float32)
    for i, thing in enumerate(things):
        rows, columns, cover, second = _sampled(thing, size)
        first_tone = np.array(_RGB[thing.colour], np.float32) + np.array(thing.hue, np.float32)
        patch = canvas[rows, columns]
        patch *= (1 - cover)[..., None]
        patch += (cover - second * np.float32(1 - _SHADE))[..., None] * first_tone
        covers[:i, rows, columns] *= 1 - cover
        covers[i, rows, columns] = cover
    noise = (chance.noise(canvas.size) >> 5).reshape(canvas.shape)  # 0 to 7
    image = np.clip(canvas + noise - np.float32(3), 0, 255).astype(np.uint8)
    masks = covers > 0.5
    return Painting(image, masks, _boxes(masks))


def _ground(size: int, chance: PortableRandom) -> Points:
    """Draw a light grey, a little tinted, a little darker towards one side."""
    light = chance.between(176, 232)
    tint = np.array([chance.between(-10, 10) for _ in range(3)], np.float32)
    ramp = np.arange(size, dtype=np.float32) / np.float32(size) - np.float32(0.5)
    slope = np.float32(chance.between(-16, 16)), np.float32(chance.between(-16, 16))
    shade = ramp * slope[0] + (ramp * slope[1])[:, None]
    ground: Points = shade[..., None] + (tint + np.float32(light))
    return ground


def _boxes(masks: Where) -> NDArray[np.int64]:
    boxes = np.zeros((len(masks), 4), np.int64)
    for box, mask in zip(boxes, masks, strict=True):
        for axis, place in ((0, 0), (1, 1)):
            (filled,) = np.nonzero(mask.any(axis=axis))
            if len(filled):
                box[place], box[place + 2] = filled[0], filled[-1] + 1
    return boxes


def _sampled(thing: Thing, size: int) -> tuple[slice, slice, Points, Points]:
    """Return the part of the picture that a thing lies in, how much of each pixel it covers, and in the second tone."""
    spans, offsets = [], []
    for center in (thing.y, thing.x):
        low = max(0, int((center - thing.radius) * size))
        high = min(size, int((center + thing.radius) * size) + 1)
        spans.append(slice(low, high))
        # Points first, pixels last: so the mean over points runs along memory.
        points = (np.arange(_POINTS, dtype=np.float32)[:, None] + np.float32(0.5)) / _POINTS
        offsets.append(
            ((points + np.arange(low, high, dtype=np.float32)) / np.float32(size) - np.float32(center))
            / np.float32(thing.radius)
        )
    down, across = offsets[0][:, None, :, None], offsets[1][None, :, None, :]
    # A turn by rational numbers: sines and cosines may differ in their last bit from machine to machine.
    t = thing.tilt
    cosine, sine = np.float32((1 - t * t) / (1 + t * t)), np.float32(2 * t / (1 + t * t))
    u, v = cosine * across + sine * down, cosine * down - sine * across
    inside = _SHAPES[thing.shape](u, v)
    cover = _mean(inside)
    if thing.texture == "plain":
        return spans[0], spans[1], cover, np.zeros_like(cover)
    return spans[0], spans[1], cover, _mean(inside & _TEXTURES[thing.texture](u, v, thing))


def _mean(inside: Where) -> Points:
    rows, columns = inside.shape[2:]
    flat = inside.reshape(_POINTS * _POINTS, rows * columns)
    mean: Points = (flat.sum(axis=0, dtype=np.uint8) / np.float32(_POINTS * _POINTS)).reshape(rows, columns)
    return mean


# ---------------------------------------------------------- shapes, within the circle of radius 1; v points down


def _circle(u: Points, v: Points) -> Where:
    inside: Where = u * u + v * v <= np.float32(0.81)
    return inside


def _ring(u: Points, v: Points) -> Where:
    distance = u * u + v * v
    inside: Where = (distance <= np.float32(0.9)) & (distance >= np.float32(0.25))
    return inside


def _square(u: Points, v: Points) -> Where:
    return np.maximum(np.abs(u), np.abs(v)) <= np.float32(0.7)


def _diamond(u: Points, v: Points) -> Where:
    return np.abs(u) / np.float32(0.78) + np.abs(v) <= 1


def _triangle(u: Points, v: Points) -> Where:
    return (v <= np.float32(0.5)) & (np.abs(u) * np.float32(1.7320508) - v <= 1)


def _cross(u: Points, v: Points) -> Where:
    across, down = np.abs(u), np.abs(v)
    return (np.minimum(across, down) <= np.float32(0.3)) & (np.maximum(across, down) <= np.float32(0.94))


_STAR: Final = ((0.95105652, 0.30901699), (0.58778525, -0.80901699))
"""The normals of a star's five long lines: one points up, these two and their mirror images to the sides."""
_STAR_REACH: Final = np.float32(0.36)
"""How far these lines are from the middle."""


def _star(u: Points, v: Points) -> Where:
    """A point is in a star if at most one of its five long lines lies between the point and the middle.

    The tips are cut off by the circle, so that they are no thinner than a pixel.
    """
    across = np.abs(u)
    beyond = (-v > _STAR_REACH).astype(np.uint8)
    for normal_u, normal_v in _STAR:
        for side in (across, -across):
            beyond += np.float32(normal_u) * side - np.float32(normal_v) * v > _STAR_REACH
    inside: Where = (beyond <= 1) & (u * u + v * v <= 1)
    return inside


def _heart(u: Points, v: Points) -> Where:
    """Two discs side by side over the lower half of a square that stands on its corner."""
    across = np.abs(u)
    disc = (across - np.float32(0.42)) ** 2 + (v + np.float32(0.3)) ** 2 <= np.float32(0.46**2)
    point = (across + v * np.float32(0.93) <= np.float32(0.83)) & (v >= np.float32(-0.16))
    return disc | (point & (across <= np.float32(0.86)))


_SHAPES: Final[dict[str, Callable[[Points, Points], Where]]] = {
    "circle": _circle,
    "square": _square,
    "triangle": _triangle,
    "diamond": _diamond,
    "cross": _cross,
    "star": _star,
    "ring": _ring,
    "heart": _heart,
}

# ------------------------------------------------------------------------------ textures: where the second tone is

_RUN: Final = ((0.0, 1.0), (1.0, 0.0), (0.75, 0.75), (0.75, -0.75))
"""Across what stripes change: horizontal, vertical and the two diagonals."""
_FINER: Final = 1.35
"""By how much more often a texture repeats in a large thing, which has room for it."""
_BEADS: Final = ((0.725, 0.0), (0.0, 0.725), (0.513, 0.513))
"""Where the dots of a ring are, folded into one quarter: a grid of dots would miss it."""


def _turns(values: Points, often: float, thing: Thing) -> Points:
    """Count the repetitions of a texture along an axis."""
    return values * np.float32(often * (_FINER if thing.size == "large" else 1))


def _first_half(turns: Points) -> Where:
    return turns - np.floor(turns) < 0.5


def _striped(u: Points, v: Points, thing: Thing) -> Where:
    across, down = _RUN[thing.direction]
    along = np.float32(across) * (u + np.float32(thing.phase[0])) + np.float32(down) * (v + np.float32(thing.phase[1]))
    return _first_half(_turns(along, 1.6, thing))


def _dotted(u: Points, v: Points, thing: Thing) -> Where:
    """Put a dot in the middle and others around, so that narrow shapes have some, too."""
    if thing.shape == "ring":
        across, down = np.abs(u), np.abs(v)
        squares = [(across - np.float32(x)) ** 2 + (down - np.float32(y)) ** 2 for x, y in _BEADS]
        beads: Where = np.minimum(np.minimum(squares[0], squares[1]), squares[2]) < np.float32(0.025)
        return beads
    columns, rows = (_turns(values, 1.8, thing) for values in (u, v))
    dots: Where = (columns - np.rint(columns)) ** 2 + (rows - np.rint(rows)) ** 2 < np.float32(0.1)
    return dots


def _checked(u: Points, v: Points, thing: Thing) -> Where:
    columns, rows = u + np.float32(thing.phase[0]), v + np.float32(thing.phase[1])
    return _first_half(_turns(columns, 1.15, thing)) ^ _first_half(_turns(rows, 1.15, thing))


_TEXTURES: Final[dict[str, Callable[[Points, Points, Thing], Where]]] = {
    "striped": _striped,
    "dotted": _dotted,
    "checked": _checked,
}
