"""`regard attend` of a captioner: where it looks in a picture while it writes."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.cli.image_inputs import read_shown
from regard.cli.options import search_options
from regard.tasks.captioning.predictor import CaptionPredictor
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import FORMS


def attend(folder: Path, asked: AttendRequest) -> None:
    """Print and write where the words of a caption look."""
    check_files(asked.out, FORMS)
    predictor = CaptionPredictor.load(folder, asked.device)
    options = search_options(predictor.options, asked.changes)
    pictures, shown = read_shown(predictor.config, Path(asked.what), asked.features)
    (described,) = predictor.caption(pictures, beam=asked.beam, candidates=5, options=options)
    trace = ImageTrace(described.best.attention, shown, described.grid)
    show_trace(described.text, trace, asked.out, asked.look)
