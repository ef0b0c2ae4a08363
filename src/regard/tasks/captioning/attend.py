"""`regard attend` of a captioner: where it looks in a picture while it writes."""

from pathlib import Path

from regard.cli.attention_output import Asked, check_files, show_trace
from regard.cli.image_inputs import read_shown
from regard.config_io import search_options
from regard.tasks.captioning.narrator import Narrator
from regard.viz.image_trace import ImageTrace
from regard.viz.trace import FORMS


def attend(folder: Path, asked: Asked) -> None:
    """Print and write where the words of a caption look."""
    check_files(asked.out, FORMS)
    narrator = Narrator.load(folder, asked.device)
    options = search_options(narrator.options, asked.changes)
    pictures, shown = read_shown(narrator.config, Path(asked.what), asked.features)
    (described,) = narrator.describe(pictures, beam=asked.beam, candidates=5, options=options)
    trace = ImageTrace(described.best.attention, shown, described.grid)
    show_trace(described.text, trace, asked.out, asked.look)
