"""Export a captioner as two ONNX graphs: the encoder and one decoder step."""

from pathlib import Path

from regard.config import Config
from regard.export.export_model import Exportable
from regard.export.graph_inputs import pictures
from regard.export.manifest import Usage
from regard.export.metadata import described, tokenized
from regard.task import open_model
from regard.task_table import BY_NAME

USAGE = Usage(
    Path(__file__).with_name("program.py"),
    "describes pictures",
    "python run.py picture.png",
    ("pillow", "sentencepiece"),
)


def exportable(folder: Path, config: Config, out: Path) -> Exportable:
    """Return what to export; the vocabulary is copied to `out`."""
    model, tokenizers, _ = open_model(folder, "cpu", BY_NAME["captioning"])
    beside = {**tokenized(folder, tokenizers, model, config, out), "image": described(config.model, model)}
    return Exportable(model, pictures(config.model), beside, USAGE)
