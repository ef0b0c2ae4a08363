"""From weights of regions to pixels: how heat maps are laid over images, for strips, pages and terminals alike.

Over a grid the heat is interpolated smoothly: it equals a cell's weight at the cell's centre, and never exceeds the
weights around it. Over boxes a pixel has the weight of the strongest box that contains it. Where weights are low the
image is dimmed and desaturated, so that its colours are not taken for heat; where they are high it keeps its colours.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regard.errors import DisplayError
from regard.viz import colour_scale

OPACITY = 0.65
"""Default opacity of the strongest heat."""
FAINTEST = 0.4
"""Opacity of zero heat, as a share of the opacity."""
GREYED = 0.9
"""Desaturation of the image at zero heat."""
LUMA = (0.2126, 0.7152, 0.0722)
"""Luminance of red, green and blue."""

STEPS = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 12.0)
"""Values, times a power of ten, at which a scale may end."""

_Numbers = NDArray[np.float32]
_Bytes = NDArray[np.uint8]


class Regions(NamedTuple):
    """What weights are over: the cells of a grid, or boxes in pixels of an image of a size (height, width)."""

    grid: tuple[int, int] | None
    boxes: _Numbers | None
    size: tuple[int, ...]

    def field(self, weights: _Numbers, height: int, width: int) -> _Numbers:
        """Spread one word's weights over the pixels of a rendering of the image at any size."""
        if self.grid is not None:
            down, across = _blend(self.grid[0], height), _blend(self.grid[1], width)
            return np.asarray(down @ weights.reshape(self.grid) @ across.T, dtype=np.float32)
        assert self.boxes is not None
        spread = np.zeros((height, width), np.float32)
        for box, weight in zip(self.boxes, weights, strict=True):
            rows, columns = self.within(box, height, width)
            spread[rows, columns] = np.maximum(spread[rows, columns], weight)
        return spread

    def within(self, box: _Numbers, height: int, width: int) -> tuple[slice, slice]:
        """Return the rows and columns of a box in a rendering of the image; at least one of each."""
        left, top, right, bottom = (float(value) for value in box)
        spans = []
        for low, high, of, count in ((top, bottom, self.size[0], height), (left, right, self.size[1], width)):
            first = min(max(round(low / of * count), 0), count - 1)
            spans.append(slice(first, max(round(high / of * count), first + 1)))
        return spans[0], spans[1]

    def place(self, region: int) -> tuple[float, float, float, float]:
        """Return a region's position as fractions of the image: left, top, right, bottom."""
        if self.grid is None:
            assert self.boxes is not None
            height, width = self.size[:2]
            left, top, right, bottom = (float(value) for value in self.boxes[region])
            return left / width, top / height, right / width, bottom / height
        (rows, columns), (row, column) = self.grid, divmod(region, self.grid[1])
        return column / columns, row / rows, (column + 1) / columns, (row + 1) / rows


def top(looks: _Numbers) -> float:
    """Return the weight from which on a word gets the strongest colour, for words × regions.

    It is the median of the words' largest weights, rounded up: with the maximum, one word with all its weight on a
    single cell would make all others invisible.
    """
    largest = looks.max(axis=1, initial=0.0)
    middle = float(np.median(largest[largest > 0])) if (largest > 0).any() else 1.0
    digit = 10.0 ** math.floor(math.log10(middle) + 1e-9)
    return min(next(step * digit for step in STEPS if step * digit >= middle * (1 - 1e-4)), max(1.0, middle))


def pixels_of(image: NDArray[Any]) -> _Bytes:
    """Return an image as height × width × 3; refuse anything else."""
    if image.dtype != np.uint8 or image.ndim != 3 or image.shape[2] not in (1, 3) or not image.size:
        raise DisplayError(
            f"An image must be bytes (uint8), height × width × 3 (or 1), got {image.dtype} of shape {image.shape}."
        )
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def fitted(image: _Bytes, longest: int) -> _Bytes:
    """Resize an image to about a size, keeping its proportions: averaged to shrink, by whole multiples to grow."""
    image = pixels_of(image)
    height, width = image.shape[:2]
    if (times := longest // max(height, width)) >= 1:
        return image.repeat(times, axis=0).repeat(times, axis=1)
    share = longest / max(height, width)
    return shrunk(image, max(round(height * share), 1), max(round(width * share), 1))


def shrunk(image: _Bytes, height: int, width: int) -> _Bytes:
    """Shrink an image to exactly a size; each new pixel is the mean of those it covers."""
    down, across = _cover(image.shape[0], height), _cover(image.shape[1], width)
    mean = np.einsum("hH,HWc,wW->hwc", down, image.astype(np.float32), across, optimize=True)
    return np.asarray(mean + 0.5, dtype=np.uint8)


def overlaid(image: _Bytes, shares: _Numbers, opacity: float = OPACITY) -> _Bytes:
    """Lay heat (shares of the strongest, from 0 to 1) over an image of the same height and width."""
    base, shares = image.astype(np.float32), np.clip(shares, 0, 1)
    grey = (base @ np.array(LUMA, np.float32))[..., None]
    base += (grey - base) * (GREYED * min(opacity / OPACITY, 1.0) * (1 - shares))[..., None]
    heat = heat_colours(opacity)[(shares * 255 + 0.5).astype(np.int64)]
    return np.asarray(base * (1 - heat[..., 3:]) + heat[..., :3] * heat[..., 3:] + 0.5, dtype=np.uint8)


def heat_colours(opacity: float = OPACITY) -> _Numbers:
    """Return 256 colours from zero to the strongest: red, green, blue up to 255, and opacity up to 1."""
    shares = np.linspace(0, 1, 256)
    cover = opacity * (FAINTEST + (1 - FAINTEST) * shares)
    return np.asarray(np.column_stack([colour_scale.heat(256) * 255, cover]), dtype=np.float32)


def key_colours(image: _Bytes, count: int = 256) -> _Bytes:
    """Return the colour scale as drawn over this image: over a grey of the image's mean brightness."""
    mean = np.full((1, count, 3), float(pixels_of(image).mean()), np.float32).astype(np.uint8)
    return overlaid(mean, np.linspace(0, 1, count, dtype=np.float32)[None])


def _blend(cells: int, pixels: int) -> _Numbers:
    """Return pixels × cells: the interpolation weight of each cell for each pixel."""
    at = (np.arange(pixels) + 0.5) / pixels * cells - 0.5
    below = np.floor(at)
    share = at - below
    share = share * share * (3 - 2 * share)
    blend = np.zeros((pixels, cells), np.float32)
    for place, part in ((below, 1 - share), (below + 1, share)):
        np.add.at(blend, (np.arange(pixels), np.clip(place, 0, cells - 1).astype(np.int64)), part)
    return blend


def _cover(old: int, new: int) -> _Numbers:
    """Return new × old: the fraction of each new pixel that lies in each old one."""
    edges = np.arange(new + 1) * (old / new)
    low, high = edges[:-1, None], edges[1:, None]
    place = np.arange(old)[None]
    shared = np.clip(np.minimum(high, place + 1) - np.maximum(low, place), 0, None)
    return np.asarray(shared / (high - low), dtype=np.float32)
