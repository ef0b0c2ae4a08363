"""`regard classify`."""

from typing import Annotated

import typer

from regard.cli.image_inputs import Skipped, read_asked
from regard.cli.options import Device, Model, check_at_least
from regard.errors import DataError
from regard.tasks.captioning.command import Images


def classify(
    model: Model,
    images: Images = None,
    top: Annotated[int, typer.Option(metavar="N", help="Print this many classes, the most probable first.")] = 3,
    device: Device = "auto",
) -> None:
    """Tell which classes pictures are of.

    A line is a probability and a class, separated by a tab; of several pictures, the picture's name comes first.
    What cannot be read is told of and left out.
    """
    check_at_least(1, top=top)
    if not images:
        raise DataError("There is nothing to classify: give image files, or a folder of them.")
    from regard.tasks.image_classification.labeller import Labeller

    labeller = Labeller.load(model, device)
    skipped = Skipped()
    names, pictures = read_asked(labeller.config, images, skip=skipped)
    for name, guesses in zip(names, labeller.classify(pictures, top), strict=True):
        first = "" if len(names) + skipped.count == 1 else f"{name}\t"
        for guess in guesses:
            print(f"{first}{guess.probability:.4f}\t{guess.label}")
    skipped.leave()
