"""Whether a captioner looks at the thing that it names: a score for scenes, whose words have gold regions.

What counts is where it looks at the step that writes a word. It is made to write all that is said of a scene, so that
every model is asked about the same words, whatever it would have written by itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from regard.data.scenes import Scene, on_grid
from regard.data.scenes.captions import Caption
from regard.data.scenes.objects import SHAPES, plural_of
from regard.errors import ConfigError
from regard.evaluation.alignment_error_rate import Reading
from regard.evaluation.report import Score
from regard.tasks.captioning.predictor import PictureCaption
from regard.viz.trace import AttentionTrace

NOUNS = frozenset((*SHAPES, *map(plural_of, SHAPES)))
"""The words that name things."""
PARTS = ("familiar", "held-out")
"""Scenes of combinations that training has seen, and of others."""


@dataclass
class Pointing:
    """Counts words, and of how many the attention's maximum lay on what they speak of."""

    reading: Reading = field(default_factory=Reading)
    """Which layer and head's looks, and whether those of the step after."""
    nouns: list[bool] = field(default_factory=list)
    words: list[bool] = field(default_factory=list)
    """The same for every word that speaks of something: colours, numbers and relations too."""
    chances: list[tuple[float, float]] = field(default_factory=list)
    """How much of the grid would have been right, for each noun, and how much of the cells that any thing covers."""

    def add(self, trace: AttentionTrace, gold: Caption, covered: NDArray[np.bool_]) -> None:
        """Take in a caption as it was written; `covered` tells which cells each thing of the scene covers."""
        spots = _most_looked_at(trace, self.reading)
        for word, things, spot in zip(gold.words, gold.things, spots, strict=False):  # what was cut has no look
            if things:
                right = np.asarray(covered[list(things)].any(axis=0))
                self.words.append(bool(right.flat[spot]))
                if word in NOUNS:
                    self.nouns.append(self.words[-1])
                    self.chances.append((float(right.mean()), float(right.sum() / covered.any(axis=0).sum())))

    def scores(self, name: str, captions: str) -> list[Score]:
        """Return the shares of nouns and of all words, in percent, where there are any; `captions` says which."""
        how = f"attention's maximum on a cell that the thing covers, {_chosen(self.reading)}, {captions}"
        found = []
        if self.nouns:
            anywhere, on_things = 100 * np.mean(self.chances, axis=0)
            by_chance = f"{how}; chance {anywhere:.1f}, among cells of things {on_things:.1f}"
            found.append(Score(name, 100 * float(np.mean(self.nouns)), by_chance, len(self.nouns), "nouns"))
        if self.words:
            every = f"{how}; all words that speak of something"
            found.append(Score(f"{name}-words", 100 * float(np.mean(self.words)), every, len(self.words), "words"))
        return found


class ScenePointing:
    """Counts over scenes, all and those of familiar and of held-out combinations apart."""

    def __init__(self, reading: Reading | None = None) -> None:
        reading = reading or Reading()
        if reading.posterior:
            raise ConfigError(
                "Where a word came from (posterior) is told of models that read texts, not of captioners."
            )
        self._given = {part: Pointing(reading) for part in ("", *PARTS)}
        self._own = Pointing(reading)

    def add(self, scene: Scene, given: Sequence[PictureCaption], own: PictureCaption) -> None:
        """Take in a scene, all its captions as the model was made to write them, and what it wrote by itself.

        This counts where it is one of the captions: what else is written has no gold.
        """
        grid = own.grid
        if grid[0] != grid[1] or not own.best.attention.weights.shape[0]:
            return
        covered = on_grid(scene.painting.masks, grid[0]) > 0
        for gold, written in zip(scene.captions, given, strict=True):
            for part in ("", PARTS[scene.held_out]):
                self._given[part].add(written.best.attention, gold, covered)
        same = next((gold for gold in scene.captions if gold.text == own.text), None)
        if same is not None:
            self._own.add(own.best.attention, same, covered)

    def scores(self, part: str = "") -> list[Score]:
        """Return the shares for all scenes, with the nouns of the model's own captions; or for a part of them."""
        given = self._given[part].scores("pointing", "made to write every caption")
        own = () if part else self._own.scores("pointing-own", "its own captions where they are right")
        return [*given, *(score for score in own if score.unit == "nouns")]


def _most_looked_at(trace: AttentionTrace, reading: Reading) -> list[int]:
    """Return the cell that got the most weight while each word was written, by all of its tokens together."""
    looks = trace.look(reading.layer, reading.head)
    looks = np.concatenate((looks[1:], looks[-1:])) if reading.shift else looks
    words = np.array(trace.target_words, np.int64)
    looks, words = looks[words >= 0], words[words >= 0]
    firsts = np.flatnonzero(np.diff(words, prepend=-1))
    spots: list[int] = np.add.reduceat(looks, firsts).argmax(axis=1).tolist() if len(firsts) else []
    return spots


def _chosen(reading: Reading) -> str:
    parts = [
        f"{what} {place}" for what, place in (("layer", reading.layer), ("head", reading.head)) if place is not None
    ]
    return ", ".join([*parts, *(["looks of the step after"] if reading.shift else [])]) or "mean of all looks"
