"""The colour scale of weights, for the terminal and for pictures.

Colours are chosen in OKLab (Ottosson 2020), where equal distances look equal: equal steps of weight are equal steps of
lightness, so a picture is readable by the colour-blind and in black and white.
"""

import math

import numpy as np
from numpy.typing import NDArray

SHADES = " ░▒▓█"
"""Without colour: nothing, light, medium, dark, full."""

RAMP = (233, 17, 18, 19, 24, 31, 37, 43, 122, 230)
"""In a terminal: indices into the 256-colour palette, from almost black through blue and teal to almost white."""

_LIGHT = (0.985, 0.005, 210.0)
_DARK = (0.29, 0.13, 285.0)
_PEAK = 0.075

_COLD = (0.24, 0.10, 280.0)
_HOT = (0.96, 0.12, 462.0)


def top(weights: NDArray[np.float32]) -> float:
    """Return the weight that gets the strongest colour: the largest, rounded up to a tenth."""
    largest = float(np.max(weights, initial=0.0, where=np.isfinite(weights)))
    return min(max(math.ceil(largest * 10 - 1e-6) / 10, 0.1), 1.0)


def levels(weights: NDArray[np.float32], count: int) -> NDArray[np.int64]:
    """Return the nearest of `count` levels for each weight, 0 for none; NaN counts as 0."""
    share = np.clip(np.nan_to_num(weights) / top(weights), 0.0, 1.0)
    return np.asarray(share * (count - 1) + 0.5, dtype=np.int64)


def colours(count: int = 256) -> NDArray[np.float64]:
    """Return sRGB triples from almost white (zero) through teal to deep indigo (the maximum)."""
    return _between(_LIGHT, _DARK, count)


def heat(count: int = 256) -> NDArray[np.float64]:
    """Return sRGB triples to overlay on an image: from dark blue (zero) through red and orange to bright yellow."""
    return _between(_COLD, _HOT, count)


def _between(start: tuple[float, float, float], end: tuple[float, float, float], count: int) -> NDArray[np.float64]:
    """Interpolate between two (lightness, chroma, hue) in even steps of lightness, more saturated in the middle."""
    share = np.linspace(0.0, 1.0, count)
    lightness, chroma, hue = (a + (b - a) * share for a, b in zip(start, end, strict=True))
    chroma += _PEAK * np.sin(np.pi * share)
    angle = np.radians(hue)
    return _srgb(np.stack([lightness, chroma * np.cos(angle), chroma * np.sin(angle)], axis=-1))


def _srgb(oklab: NDArray[np.float64]) -> NDArray[np.float64]:
    """Convert OKLab to sRGB by Ottosson's matrices; colours out of gamut are clipped."""
    to_cones = np.array(
        [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.2914855480]]
    )
    to_linear = np.array(
        [
            [4.0767416621, -3.3077115913, 0.2309699292],
            [-1.2684380046, 2.6097574011, -0.3413193965],
            [-0.0041960863, -0.7034186147, 1.7076147010],
        ]
    )
    linear = np.clip((oklab @ to_cones.T) ** 3 @ to_linear.T, 0.0, 1.0)
    return np.asarray(np.where(linear <= 0.0031308, linear * 12.92, 1.055 * linear ** (1 / 2.4) - 0.055))
