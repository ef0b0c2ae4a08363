"""Initial weights of models that read images."""

import torch
from torch import nn

from regard.models.build import initialise
from regard.vision.grid_positions import LearnedGrid


@torch.no_grad()
def draw(model: nn.Module) -> None:
    """Initialise as `regard.models.build` does, but convolutions by He et al. 2015, equation 14.

    Learned positions start small, and the final norms of non-local blocks at a scale of zero.
    """
    initialise(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, LearnedGrid):
            module.draw()
