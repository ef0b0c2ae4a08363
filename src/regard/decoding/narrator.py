"""From pictures to text: a captioner and its tokenizers, ready to describe and to show where they look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config, DecodingConfig
from regard.data.tokenizers import Tokenizers
from regard.data.vocabulary import BOS, EOS
from regard.decoding.folders import open_pictured
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.search import check_options, search
from regard.decoding.translation import Read, Translation, trace_of
from regard.decoding.translator import banned_tokens
from regard.vision.build import WRITE
from regard.vision.captioner import Captioner
from regard.vision.positions import Grid

AT_ONCE = 64
"""Pictures that are described at once, unless it is said how many."""


@dataclass(frozen=True, eq=False)
class Described:
    """What was written of one picture."""

    best: Translation
    """Its trace has a source token for each cell, row by row."""
    grid: Grid
    """Rows and columns of the cells."""

    @property
    def text(self) -> str:
        """The caption."""
        return self.best.text

    def look(self, step: int, layer: int | None = None, head: int | None = None) -> NDArray[np.float32]:
        """Return where the model looked while it wrote a token: rows × columns."""
        looks: NDArray[np.float32] = self.best.attention.look(layer, head)[step].reshape(self.grid)
        return looks


class Narrator:
    """A captioner that is ready to be used. It changes nothing in it, and gives the same for the same."""

    def __init__(self, model: Captioner, tokenizers: Tokenizers, config: Config) -> None:
        self.model, self.tokenizers, self.config, self.options = model, tokenizers, config, config.decoding

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "Narrator":
        """Read a captioner's folder."""
        return cls(*open_pictured(Path(folder), device, WRITE))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def describe(
        self,
        pictures: NDArray[Any],
        *,
        beam: int | None = None,
        n_best: int = 1,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        batch_size: int | None = None,
        look: bool = True,
    ) -> list[Described]:
        """Describe pictures: pixels B×h×w×C, or features of regions B×S×D; one result for each, in order.

        `options` are the model's own unless given, `beam` goes before both. Without `look`, traces are empty, which
        takes less time.
        """
        options = options or self.options
        options = options if beam is None else replace(options, beam=beam)
        check_options(options, n_best, candidates)
        size, found = batch_size or AT_ONCE, list[Described]()
        training = self.model.training
        self.model.eval()
        try:
            for start in range(0, len(pictures), size):
                some = torch.from_numpy(np.array(pictures[start : start + size])).to(self.device)
                with torch.inference_mode():
                    pictured = self.model.see(some, look=False)
                    hypotheses = search(
                        self.model.decoder,
                        pictured.encoded,
                        options,
                        bos=BOS,
                        eos=EOS,
                        banned=banned_tokens(self.tokenizers.target),
                        n_best=n_best,
                        candidates=candidates,
                        keys=range(start, start + len(some)),
                        write=self.tokenizers.target.decode,
                        look=look,
                    )
                found += [Described(self._translation(best, pictured.grid, look), pictured.grid) for best in hypotheses]
        finally:
            self.model.train(training)
        return found

    def _translation(self, best: Sequence[Hypothesis], grid: Grid, look: bool) -> Translation:
        cells = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
        read, every = Read(cells, range(len(cells))), []
        for hypothesis in best:
            trace = trace_of(hypothesis, read, self.tokenizers.target, look)
            text = self.tokenizers.target.decode(hypothesis.tokens)
            every.append(Translation(text, hypothesis.score, trace.target, trace))
        return replace(every[0], n_best=every[1:])
