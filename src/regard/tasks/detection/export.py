"""Export a detector as one ONNX graph."""

from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.config import Config
from regard.export.export_model import Exportable
from regard.export.graph_inputs import pictures
from regard.export.manifest import Usage
from regard.export.metadata import described
from regard.export.single_graph import Whole
from regard.shapes import Tensor
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.detection.detector import Detector
from regard.vision.pixels import from_pixels

USAGE = Usage(
    Path(__file__).with_name("program.py"), "finds objects in pictures", "python run.py picture.png", ("pillow",)
)


class Detecting(Whole):
    """Maps a picture to classes, boxes and masks of all queries, after the last layer."""

    about: ClassVar = {
        "logits": "of each class and, last, of no object, for each query",
        "boxes": "centre x, centre y, width and height, from 0 to 1, for each query",
        "weights": "attention: queries, layers, heads, cells row by row",
        "masks": "logits of the pixels for each query: above 0 they belong to its object",
    }

    def __init__(self, model: Detector) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Detect, with a mask for every query."""
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


def exportable(folder: Path, config: Config) -> Exportable:
    """Return what to export, with the classes in the order of the logits."""
    model, labels, _ = open_model(folder, "cpu", BY_NAME["detection"])
    beside: dict[str, Any] = {"labels": list(labels.names), "image": described(config.model, model)}
    return Exportable(Detecting(model), pictures(config.model), beside, USAGE)
