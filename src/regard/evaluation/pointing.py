"""Whether a captioner looks at the thing that it names: a score for scenes, whose words have gold regions."""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from regard.data.scenes import Scene, on_grid
from regard.data.scenes.things import SHAPES, plural_of
from regard.decoding.narrator import Described
from regard.evaluation.alignment import Reading
from regard.evaluation.report import Score

NOUNS = frozenset((*SHAPES, *map(plural_of, SHAPES)))
"""The words that name things."""


@dataclass
class Pointing:
    """Counts the words of right captions, and of how many the attention's maximum lay on what they speak of."""

    reading: Reading = field(default_factory=Reading)
    """Which layer and head's looks, and whether those of the step after."""
    nouns: list[bool] = field(default_factory=list)
    words: list[bool] = field(default_factory=list)
    """The same for every word that speaks of something: colours, numbers and relations too."""
    chances: list[float] = field(default_factory=list)
    """How much of the grid would have been right, for each noun."""

    def add(self, described: Described, scene: Scene) -> None:
        """Take in what was written of a scene; what is none of its captions has no gold."""
        gold = next((caption for caption in scene.captions if caption.text == described.text), None)
        trace = described.best.attention
        if gold is None or not trace.weights.shape[0] or described.grid[0] != described.grid[1]:
            return
        covered = on_grid(scene.painting.masks, described.grid[0]) > 0
        chosen = trace.look(self.reading.layer, self.reading.head)
        chosen = np.concatenate((chosen[1:], chosen[-1:])) if self.reading.shift else chosen
        look = replace(trace, weights=chosen[None, None]).words()  # words × cells
        for word, things, weights in zip(gold.words, gold.things, look, strict=True):
            if things:
                self._count(word, np.asarray(covered[list(things)].any(axis=0)), weights.reshape(described.grid))

    def _count(self, word: str, right: NDArray[np.bool_], weights: NDArray[np.float32]) -> None:
        hit = bool(right.flat[int(weights.argmax())])
        self.words.append(hit)
        if word in NOUNS:
            self.nouns.append(hit)
            self.chances.append(float(right.mean()))

    def _chosen(self) -> str:
        parts = [
            f"{what} {place}"
            for what, place in (("layer", self.reading.layer), ("head", self.reading.head))
            if place is not None
        ]
        return ", ".join([*parts, *(["looks of the step after"] if self.reading.shift else [])]) or "mean of all looks"

    def scores(self, name: str = "pointing") -> list[Score]:
        """Return the shares, in percent; nothing where no caption was right."""
        if not self.nouns:
            return []
        chance = 100 * float(np.mean(self.chances))
        how = f"attention's maximum on a cell that the thing covers, {self._chosen()}, right captions alone"
        return [
            Score(name, 100 * float(np.mean(self.nouns)), f"{how}; chance {chance:.1f}", len(self.nouns), "nouns"),
            Score(
                f"{name}-words", 100 * float(np.mean(self.words)), f"{how}; all that speak", len(self.words), "words"
            ),
        ]
