"""Export a translator or a language model as two ONNX graphs: the encoder and one decoder step."""

from pathlib import Path

from regard.config import Config
from regard.decoding.model_loading import open_folders
from regard.export.export_model import Exportable
from regard.export.graph_inputs import texts
from regard.export.manifest import Usage
from regard.export.metadata import tokenized
from regard.models.seq2seq import Seq2Seq

USAGE = Usage(Path(__file__).with_name("program.py"), "translates", "echo 'a text' | python run.py", ("sentencepiece",))


def exportable(folder: Path, config: Config, out: Path) -> Exportable:
    """Return what to export; the vocabularies are copied to `out`."""
    opened = open_folders([folder], "cpu")
    assert isinstance(opened.model, Seq2Seq)
    beside = tokenized(folder, opened.tokenizers, opened.model, config, out)
    source = texts(opened.tokenizers.source.size, opened.model.reads)
    return Exportable(opened.model, source, beside, USAGE)
