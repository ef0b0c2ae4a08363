"""`regard attend` over an image: a captioner's words, or what speaks for a classifier's classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from regard.cli.looking import Look, check_files, show_trace, tell_written
from regard.cli.options import search_options
from regard.cli.pictures import read_asked
from regard.errors import ConfigError

if TYPE_CHECKING:
    from regard.decoding.labeller import Labeller
    from regard.decoding.narrator import Narrator

_SHOWN = 640
"""Pixels a side that are shown of an image, if it has them: more than models read."""


def attend_image(
    model: Path,
    image: Path,
    out: Sequence[Path],
    look: Look,
    *,
    beam: int | None = None,
    set_: Sequence[str] | None = None,
    device: str = "auto",
) -> None:
    """Print and write where a model that reads pictures looks in one."""
    from regard.models.store import open_folder
    from regard.vision.build import CLASSIFY

    if open_folder(model).model.task == CLASSIFY:
        from regard.decoding.labeller import Labeller

        _explain(Labeller.load(model, device), image, out, look)
        return
    from regard.decoding.narrator import Narrator
    from regard.viz.overlay import FORMS, ImageTrace

    check_files(out, FORMS)
    narrator = Narrator.load(model, device)
    options = search_options(narrator.options, None if set_ is None else [*set_])
    pictures, shown = _read(narrator, image)
    (described,) = narrator.describe(pictures, beam=beam, candidates=5, options=options)
    show_trace(described.text, ImageTrace(described.best.attention, shown, described.grid), out, look)


def _explain(labeller: "Labeller", image: Path, out: Sequence[Path], look: Look) -> None:
    """Show Grad-CAM of the most probable classes and attention rollout, whichever the classifier has."""
    from regard.vision.heatmaps import heat_maps
    from regard.viz.overlay import ImageTrace
    from regard.viz.overlay_picture import save_maps
    from regard.viz.trace import PICTURES

    if (look.layer, look.head, look.heads) != (None, None, False):
        raise ConfigError("--layer, --head and --heads are for captioners: a classifier is explained as a whole.")
    check_files(out, PICTURES)
    pictures, shown = _read(labeller, image)
    maps = heat_maps(labeller.model, pictures[0], labeller.labels.names)
    for each in maps:
        print(f"{each.name} ({each.note})")
        trace = ImageTrace.of(shown, [each.name], (each.cells / (each.cells.sum() or 1))[None])
        print(trace.render(look.columns, look.color), flush=True)
    for path in out:
        tell_written(path, save_maps(shown, maps, path))


def _read(reader: "Narrator | Labeller", image: Path) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return an image as the model reads it, and the same part of it in as many pixels as are worth showing."""
    from regard.data.images import read_image

    if image.is_dir():
        raise ConfigError(f"{image} is a folder: give one image of it.")
    _, pictures = read_asked(reader.config, [image])
    side = min(read_image(image).shape[:2])
    return pictures, read_image(image, min(side, _SHOWN))
