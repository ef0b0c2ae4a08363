"""`regard classify` of pictures."""

from collections.abc import Sequence
from pathlib import Path

from regard.cli.image_inputs import Skipped, read_inputs
from regard.errors import DataError


def print_classes(model: Path, images: Sequence[Path], top: int, device: str) -> None:
    """Print the most probable classes of each picture."""
    if not images:
        raise DataError("There is nothing to classify: give image files, or a folder of them.")
    from regard.tasks.image_classification.predictor import ImageClassPredictor

    predictor = ImageClassPredictor.load(model, device)
    skipped = Skipped()
    names, pictures = read_inputs(predictor.config, images, skip=skipped)
    for name, guesses in zip(names, predictor.classify(pictures, top), strict=True):
        first = "" if len(names) + skipped.count == 1 else f"{name}\t"
        for guess in guesses:
            print(f"{first}{guess.probability:.4f}\t{guess.label}")
    skipped.leave()
