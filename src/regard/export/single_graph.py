"""Models that answer at once, as one graph: classifiers, detectors, and what answers questions."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import nn

from regard.export.decoder_state import axes_of
from regard.export.graph_inputs import Source
from regard.export.onnx_graph import Graph, Port
from regard.shapes import Tensor
from regard.vision.classifier import Classifier
from regard.vision.detection.detector import Detector
from regard.vision.pixels import from_pixels
from regard.vision.questions.base import Answerer, Asking

LOOKS = "looks."
"""What stands before the names of what an image encoder attends to on the way."""


class Whole(nn.Module, ABC):
    """From a source to all that a model says of it, by name."""

    about: ClassVar[Mapping[str, str]]
    """What is told of outputs in export.json."""

    @abstractmethod
    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Return what the model says."""

    def forward(self, *source: Tensor) -> tuple[Tensor, ...]:
        """Return the same without names; what has no room for anything is left out."""
        return tuple(said for said in self.say(*source).values() if 0 not in said.shape[1:])


class Classifying(Whole):
    """From a picture to logits of classes, and what was attended to."""

    about: ClassVar = {"logits": "of each class"}

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Classify."""
        found = self.model.see(source[0], source[1] if len(source) > 1 else None)
        return {"logits": found.logits, **{LOOKS + name: look for name, look in found.looks.items()}}


class Detecting(Whole):
    """From a picture to classes, boxes and masks of all queries, after the last layer."""

    about: ClassVar = {
        "logits": "of each class and, last, of nothing, for each query",
        "boxes": "centre x, centre y, width and height, from 0 to 1, for each query",
        "weights": "where it looked: queries, layers, heads, cells row by row",
        "masks": "logits of the pixels of each query: above 0 they belong to what it found",
    }

    def __init__(self, model: Detector) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Find; masks are those of all queries, one after the other."""
        pixels = from_pixels(source[0])
        found = self.model(pixels, look=True)
        assert found.weights is not None
        said = {"logits": found.logits[:, -1], "boxes": found.boxes[:, -1], "weights": found.weights}
        if self.model.segmenter is None:
            return said
        rows, queries = found.features.shape[:2]
        row = torch.arange(rows)[:, None].expand(-1, queries).reshape(-1)
        query = torch.arange(queries)[None].expand(rows, -1).reshape(-1)
        masks = self.model.segment(pixels, found, row, query)
        return {**said, "masks": masks.reshape(rows, queries, *masks.shape[1:])}


class Answering(Whole):
    """From a picture and a question to logits of answers, and where was looked."""

    about: ClassVar = {
        "logits": "of each answer",
        "weights": "where it looked: tokens of the question (or one, for all), layers, heads, cells row by row",
    }

    def __init__(self, model: Answerer) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Answer one question about each picture."""
        *picture, tokens, real = source
        read = from_pixels(picture[0]) if picture[0].dtype == torch.uint8 else picture[0]
        found = self.model.see(read, Asking(tokens, real), picture[1] if len(picture) > 1 else None)
        assert found.weights is not None
        looks = {LOOKS + name: look for name, look in found.looks.items()}
        return {"logits": found.logits, "weights": found.weights, **looks}


def export_whole(module: Whole, source: Source) -> dict[str, Graph]:
    """Make the graph of a model that answers at once."""

    def say(sizes: Mapping[str, int]) -> dict[str, Tensor]:
        with torch.no_grad():
            return module.say(*source.examples(sizes))

    axes = {name: grown for name, grown in axes_of(say, source.grows).items() if 0 not in grown}
    outputs = [
        Port(name, grown, torch.float32, module.about.get(name, "what was attended to")) for name, grown in axes.items()
    ]
    return {"model": Graph(module, source.ports, outputs)}
