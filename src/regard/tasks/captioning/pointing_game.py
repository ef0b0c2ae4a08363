"""The pointing game for captioners: whether the maximum of the attention is on the object that a word names.

Scored on scenes, whose words have gold regions, at the decoding step of each word. The references are written with
teacher forcing, so that every model is scored on the same words.
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
"""The words that name objects."""
PARTS = ("familiar", "held-out")
"""Scenes with combinations of attributes seen in training, and with others."""


@dataclass
class Pointing:
    """Counts the words whose attention has its maximum on a gold region."""

    reading: Reading = field(default_factory=Reading)
    """Layer and head to score, and whether to use the attention of the next step."""
    nouns: list[bool] = field(default_factory=list)
    words: list[bool] = field(default_factory=list)
    """The same for all words with a gold region: colours, numbers and relations too."""
    chances: list[tuple[float, float]] = field(default_factory=list)
    """For each noun, the share of cells that are correct: of the whole grid, and of the cells covered by any object."""

    def add(self, trace: AttentionTrace, gold: Caption, covered: NDArray[np.bool_]) -> None:
        """Count the words of a caption; `covered` has the cells that each object of the scene covers."""
        spots = _most_looked_at(trace, self.reading)
        for word, things, spot in zip(
            gold.words, gold.things, spots, strict=False
        ):  # truncated words have no attention
            if things:
                right = np.asarray(covered[list(things)].any(axis=0))
                self.words.append(bool(right.flat[spot]))
                if word in NOUNS:
                    self.nouns.append(self.words[-1])
                    self.chances.append((float(right.mean()), float(right.sum() / covered.any(axis=0).sum())))

    def scores(self, name: str, captions: str) -> list[Score]:
        """Return the percentages for nouns and all words, where there are any; `captions` describes the captions."""
        how = f"maximum of the attention on a cell of the named object, {_chosen(self.reading)}, {captions}"
        found = []
        if self.nouns:
            anywhere, on_things = 100 * np.mean(self.chances, axis=0)
            by_chance = f"{how}; chance {anywhere:.1f}, within object cells {on_things:.1f}"
            found.append(Score(name, 100 * float(np.mean(self.nouns)), by_chance, len(self.nouns), "nouns"))
        if self.words:
            every = f"{how}; all words with a gold region"
            found.append(Score(f"{name}-words", 100 * float(np.mean(self.words)), every, len(self.words), "words"))
        return found


class ScenePointing:
    """The pointing game over scenes: all, and separately those with familiar and with held-out combinations."""

    def __init__(self, reading: Reading | None = None) -> None:
        reading = reading or Reading()
        if reading.posterior:
            raise ConfigError(
                "The posterior (where a word came from) is for models that read texts, not for captioners."
            )
        self._given = {part: Pointing(reading) for part in ("", *PARTS)}
        self._own = Pointing(reading)

    def add(self, scene: Scene, given: Sequence[PictureCaption], own: PictureCaption) -> None:
        """Count a scene: its references with teacher forcing, and the model's own caption.

        The model's own caption counts only if it equals a reference: others have no gold regions.
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
        """Return the scores of all scenes, including the nouns of the model's own captions; or of one part of them."""
        given = self._given[part].scores("pointing", "teacher forcing on all captions")
        own = () if part else self._own.scores("pointing-own", "its own correct captions")
        return [*given, *(score for score in own if score.unit == "nouns")]


def _most_looked_at(trace: AttentionTrace, reading: Reading) -> list[int]:
    """Return the cell with the most attention for each word, summed over its tokens."""
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
    return (
        ", ".join([*parts, *(["attention of the next step"] if reading.shift else [])]) or "mean over layers and heads"
    )
