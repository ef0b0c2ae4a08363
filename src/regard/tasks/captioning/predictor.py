"""Inference with a captioner: from pictures to captions, with the attention."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config, DecodingConfig
from regard.data.pictures import PictureInput, as_read
from regard.data.special_tokens import BOS, EOS
from regard.data.tokenizers import Tokenizers
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.sampling import key
from regard.decoding.search import check_options, search
from regard.decoding.teacher_forcing import force
from regard.decoding.translation import Read, Translation, trace_of
from regard.decoding.translator import banned_tokens
from regard.errors import ConfigError
from regard.models.inference_mode import inference_mode
from regard.models.protocol import index_state
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.captioner import Captioner
from regard.vision.encoder import EncodedImage
from regard.vision.grid_positions import Grid

AT_ONCE = 64
"""Default batch size, in pictures."""


@dataclass(frozen=True, eq=False)
class PictureCaption:
    """The caption of one picture."""

    best: Translation
    """The best caption with its n-best list; its trace has a source token for each cell, row by row."""
    grid: Grid
    """Rows and columns of the cells."""

    @property
    def text(self) -> str:
        """The caption."""
        return self.best.text

    def look(self, step: int, layer: int | None = None, head: int | None = None) -> NDArray[np.float32]:
        """Return the attention weights of one output token: rows × columns."""
        looks: NDArray[np.float32] = self.best.attention.look(layer, head)[step].reshape(self.grid)
        return looks


class CaptionPredictor:
    """A captioner for inference: stateless, so equal inputs give equal outputs."""

    task: ClassVar[str] = "captioning"
    """The name of its task."""

    def __init__(self, model: Captioner, tokenizers: Tokenizers, config: Config) -> None:
        self.model, self.tokenizers, self.config, self.options = model, tokenizers, config, config.decoding

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "CaptionPredictor":
        """Load a captioner's folder."""
        return cls(*open_model(Path(folder), device, BY_NAME["captioning"]))

    @property
    def device(self) -> torch.device:
        """The model's device."""
        return next(self.model.parameters()).device

    def caption(
        self,
        pictures: PictureInput,
        *,
        beam: int | None = None,
        n_best: int = 1,
        candidates: int = 0,
        options: DecodingConfig | None = None,
        batch_size: int | None = None,
        look: bool = True,
    ) -> list[PictureCaption]:
        """Caption pictures: files, pixels B×h×w×C or region features B×S×D. Returns one result each, in order.

        `options` default to the model's own; `beam` overrides them. Without `look`, traces are empty, which is faster.
        """
        pictures, options = as_read(pictures, self.config.model.image), options or self.options
        options = options if beam is None else replace(options, beam=beam)
        check_options(options, n_best, candidates)
        if options.keep:
            raise ConfigError("decoding.keep copies terms from a source text, and pictures have none: leave it out.")
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
        """Return the attention for given captions, with teacher forcing: for each picture, for each of its captions.

        Each picture is encoded once for all of its captions. Captions longer than the model can write are truncated.
        """
        size, most, found = batch_size or AT_ONCE, self.model.decoder.most, list[list[PictureCaption]]()
        for start in range(0, len(pictures), size):
            some = captions[start : start + size]
            texts = [text for said in some for text in said]
            targets = [[*ids, EOS][:most] for ids in self.tokenizers.target.encode_all(texts)]
            with inference_mode(self.model):
                pictured = self._see(pictures[start : start + size])
                about = torch.tensor([row for row, said in enumerate(some) for _ in said], device=self.device)
                forced = force(self.model.decoder, index_state(pictured.encoded, about), targets, True) if texts else []
            written = (
                Hypothesis(target, sum(own), own, looks) for target, (own, looks) in zip(targets, forced, strict=True)
            )
            read = _cells(pictured.grid)
            every = iter([PictureCaption(self._translation([one], read, True), pictured.grid) for one in written])
            found += [[next(every) for _ in said] for said in some]
        return found

    def _see(self, pictures: NDArray[Any]) -> EncodedImage:
        """Encode pictures, without the encoder's own attention weights."""
        return self.model.see(torch.from_numpy(np.array(pictures)).to(self.device), look=False)

    def _translation(self, best: Sequence[Hypothesis], read: Read, look: bool) -> Translation:
        every = []
        for hypothesis in best:
            trace = trace_of(hypothesis, read, self.tokenizers.target, look)
            text = self.tokenizers.target.decode(hypothesis.tokens)
            every.append(Translation(text, hypothesis.score, trace.target, trace))
        return replace(every[0], n_best=every[1:])


def _cells(grid: Grid) -> Read:
    """Return the cells of a picture as source tokens named `row,column`, row by row, each a word of its own."""
    names = [f"{row},{column}" for row in range(grid[0]) for column in range(grid[1])]
    return Read(names, range(len(names)))
