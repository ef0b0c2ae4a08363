"""From pictures to text: a captioner and its tokenizers, ready to describe and to show where they look."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config, DecodingConfig
from regard.data.special_tokens import BOS, EOS
from regard.data.tokenizers import Tokenizers
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import key
from regard.decoding.search import check_options, search
from regard.decoding.translation import Read, Translation, trace_of
from regard.decoding.translator import banned_tokens, force
from regard.errors import ConfigError
from regard.models.inference_mode import inference_mode
from regard.models.protocol import pick
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.captioner import Captioner
from regard.vision.encoder import EncodedImage
from regard.vision.grid_positions import Grid

AT_ONCE = 64
"""Pictures that are described at once, unless it is said how many."""


@dataclass(frozen=True, eq=False)
class PictureCaption:
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


class CaptionPredictor:
    """A captioner that is ready to be used. It changes nothing in it, and gives the same for the same."""

    def __init__(self, model: Captioner, tokenizers: Tokenizers, config: Config) -> None:
        self.model, self.tokenizers, self.config, self.options = model, tokenizers, config, config.decoding

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "CaptionPredictor":
        """Read a captioner's folder."""
        return cls(*open_model(Path(folder), device, BY_NAME["captioning"]))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def caption(
        self,
        pictures: NDArray[Any],
        *,
        beam: int | None = None,
        n_best: int = 1,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        batch_size: int | None = None,
        look: bool = True,
    ) -> list[PictureCaption]:
        """Describe pictures: pixels B×h×w×C, or features of regions B×S×D; one result for each, in order.

        `options` are the model's own unless given, `beam` goes before both. Without `look`, traces are empty, which
        takes less time.
        """
        options = options or self.options
        options = options if beam is None else replace(options, beam=beam)
        check_options(options, n_best, candidates)
        if options.keep:
            raise ConfigError("decoding.keep is for texts: a picture has no terms that could survive. Leave it out.")
        size, found = batch_size or AT_ONCE, list[PictureCaption]()
        for start in range(0, len(pictures), size):
            with inference_mode(self.model):
                some = pictures[start : start + size]
                pictured = self._see(some)
                hypotheses = search(
                    self.model.decoder,
                    pictured.encoded,
                    options,
                    bos=BOS,
                    eos=EOS,
                    banned=banned_tokens(self.tokenizers.target, replaceable=False),
                    n_best=n_best,
                    candidates=candidates,
                    keys=None if options.method == "beam" else [key(picture.tobytes()) for picture in some],
                    write=self.tokenizers.target.decode,
                    look=look,
                )
            read = _cells(pictured.grid)
            found += [PictureCaption(self._translation(best, read, look), pictured.grid) for best in hypotheses]
        return found

    def align(
        self, pictures: NDArray[Any], captions: Sequence[Sequence[str]], batch_size: int | None = None
    ) -> list[list[PictureCaption]]:
        """Return where the model looks while it is made to write given captions: for each picture, for each caption.

        A picture is read once for all of its captions. What has more tokens than the model can write is cut.
        """
        size, most, found = batch_size or AT_ONCE, self.model.decoder.most, list[list[PictureCaption]]()
        for start in range(0, len(pictures), size):
            some = captions[start : start + size]
            texts = [text for said in some for text in said]
            targets = [[*ids, EOS][:most] for ids in self.tokenizers.target.encode_all(texts)]
            with inference_mode(self.model):
                pictured = self._see(pictures[start : start + size])
                about = torch.tensor([row for row, said in enumerate(some) for _ in said], device=self.device)
                forced = force(self.model.decoder, pick(pictured.encoded, about), targets, True) if texts else []
            written = (
                Hypothesis(target, sum(own), own, looks) for target, (own, looks) in zip(targets, forced, strict=True)
            )
            read = _cells(pictured.grid)
            every = iter([PictureCaption(self._translation([one], read, True), pictured.grid) for one in written])
            found += [[next(every) for _ in said] for said in some]
        return found

    def _see(self, pictures: NDArray[Any]) -> EncodedImage:
        """Read pictures; nobody asks where the encoder looks."""
        return self.model.see(torch.from_numpy(np.array(pictures)).to(self.device), look=False)

    def _translation(self, best: Sequence[Hypothesis], read: Read, look: bool) -> Translation:
        every = []
        for hypothesis in best:
            trace = trace_of(hypothesis, read, self.tokenizers.target, look)
            text = self.tokenizers.target.decode(hypothesis.tokens)
            every.append(Translation(text, hypothesis.score, trace.target, trace))
        return replace(every[0], n_best=every[1:])


def _cells(grid: Grid) -> Read:
    """Name the cells of a picture, row by row; each is a word of its own."""
    names = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    return Read(names, range(len(names)))
