"""`regard caption`."""

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.image_inputs import Features, Skipped, read_inputs
from regard.cli.options import Batch, Beam, Device, Model, Search, check_at_least, search_options
from regard.errors import DataError

Images = Annotated[
    list[Path] | None, typer.Argument(metavar="IMAGE...", help="Image files, or folders of them.", show_default=False)
]


def caption(
    model: Model,
    images: Images = None,
    scene: Annotated[
        list[int] | None, typer.Option(metavar="N", help="Describe an embedded scene, by its number. Repeatable.")
    ] = None,
    split: Annotated[str, typer.Option(metavar="PART", help="Which scenes: train, valid or test.")] = "test",
    features: Features = None,
    beam: Beam = None,
    n_best: Annotated[int, typer.Option(metavar="N", help="Print this many captions of each, with scores.")] = 1,
    batch: Batch = None,
    set_: Search = None,
    device: Device = "auto",
) -> None:
    """Describe pictures, one caption a line.

    Of several pictures, a line is the picture's name and its caption, separated by a tab; with --n-best there is the
    score between them. What cannot be read is told of and left out.
    """
    check_at_least(1, beam=beam, n_best=n_best, batch=batch)
    check_at_least(0, scene=min(scene or [0]))
    if not images and not scene:
        raise DataError("There is nothing to describe: give image files, a folder of them, or --scene N.")
    from regard.tasks.captioning.predictor import CaptionPredictor

    predictor = CaptionPredictor.load(model, device)
    skipped = Skipped()
    names, pictures = read_inputs(predictor.config, images, scene, split, features, skipped)
    alone = len(names) + skipped.count == 1
    options = search_options(predictor.options, set_)
    found = predictor.caption(pictures, beam=beam, n_best=n_best, options=options, batch_size=batch, look=False)
    for name, described in zip(names, found, strict=True):
        best = described.best
        if n_best > 1:
            for other in (best, *best.n_best):
                print(f"{name}\t{other.score:.4f}\t{other.text}")
        else:
            print(best.text if alone else f"{name}\t{best.text}")
    skipped.leave()
