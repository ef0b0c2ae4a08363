"""From pictures to the things in them: a detector and the names of its classes, ready to be used."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config
from regard.data.class_labels import Labels
from regard.errors import ModelError
from regard.models.inference_mode import inference_mode
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.detection.detector import NO_MASKS, Detector
from regard.vision.detection.predict import Thing, detect
from regard.vision.pixels import from_pixels
from regard.viz.trace import AttentionTrace

AT_ONCE = 64
"""Pictures that are looked through at once, unless it is said how many."""
LEAST = 0.5
"""The score of what is held to be there, unless it is said otherwise."""


class QueryAttention(NamedTuple):
    """Where the queries that found something looked."""

    trace: AttentionTrace
    """A target token for each thing, a source token for each cell, row by row."""
    grid: tuple[int, int]


class DetectionPredictor:
    """A detector that is ready to be used."""

    def __init__(self, model: Detector, labels: Labels, config: Config) -> None:
        self.model, self.labels, self.config = model, labels, config

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "DetectionPredictor":
        """Read a detector's folder."""
        return cls(*open_model(Path(folder), device, BY_NAME["detection"]))

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.model.parameters()).device

    def check_masks(self) -> None:
        """Refuse a detector that finds boxes alone."""
        if self.model.segmenter is None:
            raise ModelError(NO_MASKS)

    def detect(
        self, pictures: NDArray[Any], least: float = LEAST, masks: bool = True, batch_size: int | None = None
    ) -> list[list[Thing]]:
        """Find the things of each picture (pixels B×h×w×C), the most probable first, none below the least score.

        Boxes are in pixels of what is given; `data.images.on_whole` turns them into those of a picture it was cut from.
        """
        size, found = batch_size or AT_ONCE, list[list[Thing]]()
        with inference_mode(self.model):
            for start in range(0, len(pictures), size):
                some = torch.from_numpy(np.array(pictures[start : start + size])).to(self.device)
                found += detect(self.model, some, self.labels.names, least, masks)
        return found

    def look(self, picture: NDArray[Any], things: list[Thing]) -> QueryAttention:
        """Tell where the queries that found some things of a picture (h×w×C) looked."""
        pixels = from_pixels(torch.from_numpy(np.array(picture))[None].to(self.device))
        with inference_mode(self.model):
            found = self.model(pixels, look=True)
        assert found.weights is not None
        weights = found.weights[0, [thing.query for thing in things]].float().cpu()  # T L H S
        rows, columns = found.grid
        cells = tuple(f"{row},{column}" for row in range(rows) for column in range(columns))
        names = tuple(thing.name for thing in things)
        kept = np.ascontiguousarray(weights.permute(1, 2, 0, 3).numpy(), dtype=np.float32)
        return QueryAttention(AttentionTrace(cells, names, kept, (), None), found.grid)
