"""A text classifier as one ONNX graph."""

import json
import shutil
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from regard.config import Config
from regard.data.documents import SentenceEnds
from regard.data.special_tokens import EOS
from regard.data.tokenizers import INDEX
from regard.export.decoder_state import BATCH, SOURCE
from regard.export.export_model import Exportable
from regard.export.graph_inputs import REAL, GraphInputs
from regard.export.manifest import Usage
from regard.export.onnx_graph import Port
from regard.export.single_graph import Whole
from regard.models.text_classifier import Documents, TextClassifier
from regard.shapes import Tensor
from regard.task import open_model
from regard.task_table import BY_NAME
from regard.tasks.text_classification.training import classes_of

USAGE = Usage(
    Path(__file__).with_name("program.py"), "classifies texts", "echo 'a text' | python run.py", ("sentencepiece",)
)


class Classifying(Whole):
    """From tokens to logits of classes and attention weights: of several texts, or of one in several sentences."""

    about: ClassVar = {
        "logits": "of each class",
        "words": "attention weights: texts (or sentences), heads, tokens",
        "sentences": "attention weights of the sentences: the text, heads, sentences",
    }

    def __init__(self, model: TextClassifier) -> None:
        super().__init__()
        self.model = model

    def say(self, *source: Tensor) -> dict[str, Tensor]:
        """Classify."""
        tokens, mask = source
        rows, lengths = torch.arange(tokens.shape[0]), mask.sum(dim=1)
        if self.model.hierarchical:
            one, count = rows[None], torch.ones_like(lengths).sum()[None]
            seen = self.model.see(Documents(tokens, mask, one, one >= 0, lengths, count))
        else:
            ones = torch.ones_like(lengths)
            seen = self.model.see(Documents(tokens, mask, rows[:, None], rows[:, None] >= 0, lengths, ones))
        found = {"logits": seen.logits, "words": seen.words, "sentences": seen.sentences}
        return {name: part for name, part in found.items() if part is not None}


def exportable(folder: Path, config: Config, out: Path) -> Exportable:
    """Return what the graph is made of; the vocabulary is copied, with the tokens that end sentences."""
    model, tokenizers, _ = open_model(folder, "cpu", BY_NAME["text_classification"])
    file = json.loads((folder / INDEX).read_bytes())["source"]["file"]
    shutil.copyfile(folder / file, out / file)
    source = tokenizers.source
    beside: dict[str, Any] = {
        "labels": list(classes_of(tokenizers)),
        "source": {"kind": source.kind, "file": file, "size": source.size, "tags": []},
        "end": EOS,
        "longest": model.embedding.longest,
        "sentence_ends": None,
    }
    if model.hierarchical:
        ends = SentenceEnds.of(source)
        beside["sentence_ends"] = {name: np.flatnonzero(part).tolist() for name, part in ends._asdict().items()}
    what = "sentences of one text" if model.hierarchical else "texts"
    about = f"tokens of {what}, the end mark after the {'last' if model.hierarchical else 'text'}"
    ports = Port("tokens", (BATCH, SOURCE), torch.int64, about), Port("mask", (BATCH, SOURCE), torch.bool, REAL)
    return Exportable(Classifying(model), GraphInputs(ports, source.size), beside, USAGE)
