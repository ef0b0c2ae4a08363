"""Export an image classifier as one ONNX graph."""

from pathlib import Path
from typing import Any, ClassVar

from regard.config import Config
from regard.export.export_model import Exportable
from regard.export.graph_inputs import pictures
from regard.export.manifest import Usage
from regard.export.metadata import described
from regard.export.single_graph import LOOKS, Whole
from regard.shapes import Tensor
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.classifier import Classifier

USAGE = Usage(Path(__file__).with_name("program.py"), "classifies pictures", "python run.py picture.png", ("pillow",))


class Classifying(Whole):
    """Maps a picture to the logits of its classes, and attention weights."""

    about: ClassVar = {"logits": "of each class"}

    def __init__(self, model: Classifier) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Classify."""
        found = self.model.see(source[0], source[1] if len(source) > 1 else None)
        return {"logits": found.logits, **{LOOKS + name: look for name, look in found.looks.items()}}


def exportable(folder: Path, config: Config) -> Exportable:
    """Return what to export, with the classes in the order of the logits."""
    model, labels, _ = open_model(folder, "cpu", BY_NAME["image_classification"])
    beside: dict[str, Any] = {"labels": list(labels.names), "image": described(config.model, model)}
    return Exportable(Classifying(model), pictures(config.model), beside, USAGE)
