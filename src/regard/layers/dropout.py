"""Dropout that can hold its mask over a whole sequence."""

import torch
from torch import nn

from regard.shapes import Float, Tensor


class Dropout(nn.Module):
    """Zero units at random while training, and scale up the others.

    Plain dropout draws anew at every step. The variational kind (Gal & Ghahramani 2016) drops the same units at every
    step of a sentence. Differs from the paper: recurrent connections are not dropped.
    """

    def __init__(self, rate: float, variational: bool = False) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    def forward(self, sequence: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Drop units of a whole sequence."""
        if not self.training or self.rate == 0.0:
            return sequence
        return sequence * self.scales(sequence)

    def scales(self, like: Float[Tensor, "B T D"]) -> Float[Tensor, "B #T D"]:
        """Draw the factors, 0 or 1/(1 - rate), that a loop over the steps can then apply one step at a time."""
        steps = 1 if self.variational else like.shape[1]
        drawn = torch.empty(like.shape[0], steps, like.shape[2], device=like.device, dtype=like.dtype)
        if not self.training or self.rate == 0.0:
            return drawn.fill_(1.0)
        return drawn.bernoulli_(1.0 - self.rate).div_(1.0 - self.rate)
