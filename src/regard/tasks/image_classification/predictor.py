"""From pictures to classes: a classifier and the names of its classes, ready to be used."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.config import Config
from regard.data.class_labels import Labels
from regard.models.inference_mode import inference_mode
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.classifier import Classifier

AT_ONCE = 256
"""Pictures that are classified at once, unless it is said how many."""


class Guess(NamedTuple):
    """A class that a picture may be of."""

    label: str
    probability: float


class ImageClassPredictor:
    """A classifier that is ready to be used."""

    def __init__(self, model: Classifier, labels: Labels, config: Config) -> None:
        self.model, self.labels, self.config = model, labels, config

    @classmethod
    def load(cls, folder: str | Path, device: str = "cpu") -> "ImageClassPredictor":
        """Read a classifier's folder."""
        return cls(*open_model(Path(folder), device, BY_NAME["image_classification"]))

    def log_probs(self, pictures: NDArray[Any], batch_size: int | None = None) -> NDArray[np.float32]:
        """Return the log-probability of each class for each picture: pixels B×h×w×C, or features of regions B×S×D."""
        device, size = next(self.model.parameters()).device, batch_size or AT_ONCE
        found = [np.zeros((0, self.labels.size), np.float32)]
        with inference_mode(self.model):
            for start in range(0, len(pictures), size):
                some = torch.from_numpy(np.array(pictures[start : start + size])).to(device)
                found.append(self.model(some).float().log_softmax(dim=-1).cpu().numpy())
        return np.concatenate(found)

    def classify(self, pictures: NDArray[Any], top: int = 1) -> list[list[Guess]]:
        """Return the most probable classes of each picture, best first."""
        return [
            [Guess(self.labels.names[place], float(np.exp(row[place]))) for place in np.argsort(-row)[:top]]
            for row in self.log_probs(pictures)
        ]
