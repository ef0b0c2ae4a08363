"""First weights of models that read images."""

import torch
from torch import nn

from regard.models.build import initialise
from regard.vision.grid_positions import LearnedGrid


@torch.no_grad()
def draw(model: nn.Module) -> None:
    """Draw first weights as `regard.models.build` does, but convolutions by He et al. 2015, equation 14.

    Positions that are learned start small, and the norms that end non-local blocks start from zero.
    """
    initialise(model)
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(module, LearnedGrid):
            module.draw()
