"""Heat maps of the evidence for the most probable classes of an image."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from regard.errors import ModelError
from regard.vision.classifier import Classifier
from regard.vision.explain import grad_cam, rolled_out
from regard.vision.pixels import from_pixels
from regard.vision.resnet import ResidualNetwork
from regard.viz.overlay_picture import HeatMap


def heat_maps(model: Classifier, image: NDArray[np.uint8], names: Sequence[str] = (), most: int = 2) -> list[HeatMap]:
    """Explain the most probable classes of one image (uint8, height × width × channels), best first.

    A convolutional network gives a Grad-CAM map for each class. Self-attention over cells gives attention rollout,
    which is the same for all classes. `regard.viz.overlay_picture.save_maps` draws the maps.
    """
    if not isinstance(model.encoder.stem, ResidualNetwork) and not len(model.encoder.layers):
        raise ModelError(
            "This classifier has nothing to explain it by: Grad-CAM needs a convolutional network "
            "(model.image.kind=resnet), attention rollout needs self-attention over cells (model.image.layers)."
        )
    place = next(model.parameters())
    pixels = from_pixels(torch.from_numpy(np.array(image))[None]).to(place)
    with torch.no_grad():
        probabilities = model(pixels)[0].softmax(dim=0)
    found: list[HeatMap] = []
    if isinstance(model.encoder.stem, ResidualNetwork):
        for label in probabilities.topk(min(most, len(probabilities))).indices.tolist():
            cells = grad_cam(model, model.encoder.stem.stages[-1], pixels, torch.tensor([label], device=place.device))
            name = names[label] if names else f"class {label}"
            found.append(HeatMap(f"{name} {float(probabilities[label]):.0%}", _plain(cells), "Grad-CAM"))
    if len(model.encoder.layers):
        found.append(HeatMap("any class", _plain(rolled_out(model, pixels)), "attention rollout"))
    return found


def _plain(cells: torch.Tensor) -> NDArray[np.float32]:
    return np.asarray(cells[0].float().cpu().numpy(), dtype=np.float32)
