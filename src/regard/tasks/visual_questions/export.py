"""Export a question answerer as one ONNX graph."""

from pathlib import Path
from typing import Any, ClassVar

import torch

from regard.config import Config, ModelConfig
from regard.export.decoder_state import BATCH, QUESTION
from regard.export.export_model import Exportable
from regard.export.graph_inputs import REAL, GraphInputs, pictures
from regard.export.manifest import Usage
from regard.export.metadata import described
from regard.export.onnx_graph import Port
from regard.export.single_graph import LOOKS, Whole
from regard.shapes import Tensor
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.vision.pixels import from_pixels
from regard.vision.questions.base import Answerer, QuestionTokens

USAGE = Usage(
    Path(__file__).with_name("program.py"),
    "answers questions about pictures",
    "python run.py picture.png 'a question'",
    ("pillow",),
)


class Answering(Whole):
    """Maps a picture and a question to the logits of answers, and attention weights."""

    about: ClassVar = {
        "logits": "of each answer",
        "weights": "attention: tokens of the question (or one, for all), layers, heads, cells row by row",
    }

    def __init__(self, model: Answerer) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Answer one question about each picture."""
        *picture, tokens, real = source
        read = from_pixels(picture[0]) if picture[0].dtype == torch.uint8 else picture[0]
        found = self.model.see(read, QuestionTokens(tokens, real), picture[1] if len(picture) > 1 else None)
        assert found.weights is not None
        looks = {LOOKS + name: look for name, look in found.looks.items()}
        return {"logits": found.logits, "weights": found.weights, **looks}


def questions(model: ModelConfig, vocabulary: int) -> GraphInputs:
    """Return the graph's inputs: pictures, and one question about each."""
    axes = (BATCH, QUESTION)
    asked = Port("question", axes, torch.int64, "ids of its words, the question token first")
    return GraphInputs((*pictures(model).ports, asked, Port("question_mask", axes, torch.bool, REAL)), vocabulary)


def exportable(folder: Path, config: Config) -> Exportable:
    """Return what to export, with the words of questions, and the answers in the order of the logits."""
    model, known, _ = open_model(folder, "cpu", BY_NAME["visual_questions"])
    beside: dict[str, Any] = {
        "words": list(known.words.words),
        "answers": list(known.answers),
        "image": described(config.model, model),
    }
    return Exportable(Answering(model), questions(config.model, len(known.words)), beside, USAGE)
