"""The embedded pictures: generated scenes of coloured and textured shapes, with captions, questions and gold regions.

A scene is drawn from a seed, not read from a file: one to five things, each with a shape (eight), a colour (eight), a
texture (plain, striped, dotted, checked) and a size (small, large), laid out in one of three ways: a thing `alone`;
things `around` a large one, above, below, to its left or right, or inside it; or a `crowd` from left to right. Nothing
overlaps but what is inside another, and that is painted over it. The same scene can be painted with 32 to 128 pixels a
side. With 32, shapes and colours can be told, but not every texture of a small thing; with 64 all can.

**Captions.** `scene.captions` is all that the grammar has to say of a scene, three to five sentences of 4 to about 35
words, without punctuation. A caption that is right is one of them, so BLEU against them is a fair measure, and what a
model wrote can be looked up to see which things its words speak of.

**Questions** are of six kinds: existence, count, colour, shape, comparison, spatial. Answers (`ANSWERS`) are one word.
They are balanced so that words alone tell little (`questions` says how): who always gives the commonest answer, or the
commonest for the same words, is right half the time about yes and no, in two of five counts, and for one colour or
shape in seven. There are about ten to a scene, at most two of a kind.

**Gold regions.** `caption.things` has for each word the things it speaks of: those of an adjective or noun, of "it",
all that a number counts, both sides of a relation; none for function words. `question.things` has what decides the
answer. `scene.painting` has each thing's mask (its visible pixels) and box; `on_grid` tells how much of each cell of a
grid of regions a thing covers.

**Held out.** Eight pairs of colour and shape (a red star, a blue square, ...: `RESERVED_PAIRS`) and a tenth of
all (colour, texture, shape), chosen by a checksum, never occur in "train": not painted, not named in a caption, not
asked for. In "valid" and "test", scenes with an odd index have at least one thing of these kinds (`scene.held_out`),
and those with an even index none: so one pass tells both how well a model does on scenes like those it was trained on,
and on new combinations. `question.held_out` tells which questions name one or are about one. All words of the held-out
text occur in training.

Scene i depends on (seed, split, i) and nothing else, whatever the release of NumPy.
"""

from collections.abc import Iterator
from typing import Final

from regard.data.scenes.captions import Caption
from regard.data.scenes.objects import Description, Thing
from regard.data.scenes.painting import Painting, on_grid
from regard.data.scenes.questions import ANSWERS, QUESTION_KINDS, Question
from regard.data.scenes.scene import Scene
from regard.errors import DataError, did_you_mean

__all__ = [
    "ANSWERS",
    "PIXELS",
    "QUESTION_KINDS",
    "SPLITS",
    "Caption",
    "Description",
    "Painting",
    "Question",
    "Scene",
    "Thing",
    "generate",
    "on_grid",
    "scene",
]

SPLITS: Final = ("train", "valid", "test")
PIXELS: Final = (32, 128)
"""The minimum and maximum pixels per side."""


def scene(split: str, index: int, seed: int = 1, pixels: int = 64) -> Scene:
    """Return one scene of a split."""
    _check(split, pixels, index=index)
    return _draw(split, index, seed, pixels)


def generate(split: str, size: int, seed: int = 1, start: int = 0, pixels: int = 64) -> Iterator[Scene]:
    """Yield scenes `start` to `start + size - 1` of a split."""
    _check(split, pixels, size=size, start=start)
    return (_draw(split, index, seed, pixels) for index in range(start, start + size))


def _draw(split: str, index: int, seed: int, pixels: int) -> Scene:
    return Scene.draw((seed, SPLITS.index(split), index), pixels, held_out=split != "train" and index % 2 == 1)


def _check(split: str, pixels: int, **counts: int) -> None:
    if split not in SPLITS:
        raise DataError(f"No split named {split!r} in scenes.{did_you_mean(split, SPLITS)} It has {', '.join(SPLITS)}.")
    if not PIXELS[0] <= pixels <= PIXELS[1]:
        raise DataError(f"scenes cannot be painted with {pixels} pixels a side: give {PIXELS[0]} to {PIXELS[1]}.")
    for name, value in counts.items():
        if value < 0:
            raise DataError(f"scenes: {name} is {value}, but must be 0 or more.")
