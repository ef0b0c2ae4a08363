"""`regard attend` over an image: words of a caption or of a question, what was found, or what speaks for classes."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.attention_output import Look, check_files, show_trace, tell_written
from regard.cli.image_inputs import read_shown
from regard.cli.options import search_options
from regard.errors import ConfigError, DataError

if TYPE_CHECKING:
    from regard.decoding.labeller import Labeller


def attend_image(
    model: Path,
    image: Path,
    out: Sequence[Path],
    look: Look,
    *,
    question: str | None = None,
    features: Path | None = None,
    beam: int | None = None,
    set_: Sequence[str] | None = None,
    device: str = "auto",
) -> None:
    """Print and write where a model that reads pictures looks in one."""
    from regard.models.model_folder import open_folder
    from regard.vision.build import ANSWER, CLASSIFY, DETECT, WRITE

    task = open_folder(model).model.task
    if (question is None) == (task == ANSWER):
        raise ConfigError(
            f"{model} answers questions: give one with --question."
            if question is None
            else f"--question is for models that answer questions, and {model} does not."
        )
    if features is not None and task != WRITE:
        raise ConfigError(f"--features is for captioners that read features of regions, and {model} holds none.")
    searched = [name for name, given in (("--beam", beam), ("--set", set_)) if given]
    if searched and task != WRITE:
        raise ConfigError(f"Leave out {' and '.join(searched)}: {model} holds no captioner, and nothing is searched.")
    if task == CLASSIFY:
        from regard.decoding.labeller import Labeller

        _explain(Labeller.load(model, device), image, out, look)
        return
    from regard.decoding.narrator import Narrator
    from regard.viz.image_trace import ImageTrace
    from regard.viz.trace import FORMS

    check_files(out, FORMS)
    if question is not None:
        _answer(model, image, question, out, look, device)
        return
    if task == DETECT:
        _find(model, image, out, look, device)
        return
    narrator = Narrator.load(model, device)
    options = search_options(narrator.options, None if set_ is None else [*set_])
    pictures, shown = read_shown(narrator.config, image, features)
    (described,) = narrator.describe(pictures, beam=beam, candidates=5, options=options)
    show_trace(described.text, ImageTrace(described.best.attention, shown, described.grid), out, look)


def _answer(model: Path, image: Path, question: str, out: Sequence[Path], look: Look, device: str) -> None:
    """Show where the words of a question look, and last all together: what the answer comes from."""
    from regard.decoding.respondent import Respondent
    from regard.viz.image_trace import ImageTrace

    respondent = Respondent.load(model, device)
    pictures, shown = read_shown(respondent.config, image)
    ((answered,),) = respondent.answer(pictures, [[question]], look=True)
    trace = answered.trace()
    if not trace.weights.size:
        raise ConfigError(f"{model} has no attention (model.attention=none), so there is nothing to look at.")
    show_trace(f"{answered.text} ({answered.said.probability:.2f})", ImageTrace(trace, shown, answered.grid), out, look)


def _find(model: Path, image: Path, out: Sequence[Path], look: Look, device: str) -> None:
    """Show where the queries looked that found something."""
    from regard.data.image_files import on_whole
    from regard.decoding.finder import Finder
    from regard.viz.image_trace import ImageTrace

    finder = Finder.load(model, device)
    pictures, shown = read_shown(finder.config, image)
    (things,) = finder.find(pictures, masks=False)
    if not things:
        raise DataError(f"Nothing was found in {image}, so there is nothing to look at.")
    trace, grid = finder.look(pictures[0], things)
    boxes = [(on_whole(thing.box, pictures.shape[1], (shown.shape[0], shown.shape[1])),) for thing in things]
    found = ", ".join(thing.name for thing in things)
    show_trace(found, ImageTrace(trace, shown, grid, outlines=tuple(boxes)), out, look)


def _explain(labeller: "Labeller", image: Path, out: Sequence[Path], look: Look) -> None:
    """Show Grad-CAM of the most probable classes and attention rollout, whichever the classifier has."""
    from regard.vision.class_heatmaps import heat_maps
    from regard.viz.image_trace import ImageTrace
    from regard.viz.overlay_picture import save_maps
    from regard.viz.trace import PICTURES

    if (look.layer, look.head, look.heads) != (None, None, False):
        raise ConfigError("--layer, --head and --heads are for captioners: a classifier is explained as a whole.")
    check_files(out, PICTURES)
    pictures, shown = read_shown(labeller.config, image)
    maps = heat_maps(labeller.model, pictures[0], labeller.labels.names)
    notes = {path: save_maps(shown, maps, path) for path in out}
    for each in maps:
        print(f"{each.name} ({each.note})")
        trace = ImageTrace.of(shown, [each.name], (each.cells / (each.cells.sum() or 1))[None])
        print(trace.render(look.columns, look.color), flush=True)
    for path in out:
        tell_written(path, notes[path])
