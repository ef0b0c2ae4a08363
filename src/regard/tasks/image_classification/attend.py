"""`regard attend` of a classifier: what speaks for its classes."""

from pathlib import Path

from regard.cli.attention_output import AttendRequest, check_files, tell_written
from regard.cli.image_inputs import read_shown
from regard.errors import ConfigError
from regard.tasks.image_classification.predictor import ImageClassPredictor
from regard.vision.class_heatmaps import heat_maps
from regard.viz.image_trace import ImageTrace
from regard.viz.overlay_picture import save_maps
from regard.viz.trace import PICTURES


def attend(folder: Path, asked: AttendRequest) -> None:
    """Show Grad-CAM of the most probable classes and attention rollout, whichever the classifier has."""
    look = asked.look
    if (look.layer, look.head, look.heads) != (None, None, False):
        raise ConfigError("--layer, --head and --heads are for captioners: a classifier is explained as a whole.")
    check_files(asked.out, PICTURES)
    predictor = ImageClassPredictor.load(folder, asked.device)
    pictures, shown = read_shown(predictor.config, Path(asked.what))
    maps = heat_maps(predictor.model, pictures[0], predictor.labels.names)
    notes = {path: save_maps(shown, maps, path) for path in asked.out}
    for each in maps:
        print(f"{each.name} ({each.note})")
        trace = ImageTrace.of(shown, [each.name], (each.cells / (each.cells.sum() or 1))[None])
        print(trace.render(look.columns, look.color), flush=True)
    for path in asked.out:
        tell_written(path, notes[path])
