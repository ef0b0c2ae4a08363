"""`regard attend` of a detector: where the queries look that find something."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, show_trace
from regard.cli.image_inputs import read_shown
from regard.data.image_files import on_whole
from regard.errors import DataError
from regard.tasks.detection.predictor import DetectionPredictor
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import FORMS


def attend(folder: Path, asked: AttendRequest) -> None:
    """Show where the queries looked that found something."""
    check_files(asked.out, FORMS)
    predictor = DetectionPredictor.load(folder, asked.device)
    pictures, shown = read_shown(predictor.config, Path(asked.what))
    (things,) = predictor.detect(pictures, masks=False)
    if not things:
        raise DataError(f"Nothing was found in {asked.what}, so there is nothing to look at.")
    trace, grid = predictor.look(pictures[0], things)
    boxes = [(on_whole(thing.box, pictures.shape[1], (shown.shape[0], shown.shape[1])),) for thing in things]
    found = ", ".join(thing.name for thing in things)
    show_trace(found, ImageTrace(trace, shown, grid, outlines=tuple(boxes)), asked.out, asked.look)
