"""Dropout, plain or variational (one mask for a whole sequence)."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from regard.shapes import Float, Tensor


class Dropout(nn.Module):
    """Zero units at random in training, and scale up the others.

    Plain dropout samples a new mask at every step. The variational kind (Gal & Ghahramani 2016) uses one mask for all
    steps of a sequence. Differs from the paper: recurrent connections are not dropped.
    """

    def __init__(self, rate: float, variational: bool = False) -> None:
        super().__init__()
        self.rate = rate
        self.variational = variational

    @property
    def drops(self) -> bool:
        """Whether it has any effect: in training, at a rate above zero."""
        return self.training and self.rate > 0.0

    def forward(
        self, sequence: Float[Tensor, "B T D"], add: Float[Tensor, "B T D"] | None = None
    ) -> Float[Tensor, "B T D"]:
        """Drop units of a whole sequence, then add `add` if given."""
        if not self.drops or (sequence.is_cuda and not self.variational):
            dropped = functional.dropout(sequence, self.rate) if self.drops else sequence
            return dropped if add is None else add + dropped
        if add is None:
            return sequence * self.scales(sequence)
        # In one dtype: torch is thirty times slower on mixed ones.
        return torch.addcmul(add, sequence.to(add.dtype), self.scales(add))

    def scales(self, like: Float[Tensor, "B T D"]) -> Float[Tensor, "B #T D"]:
        """Sample the factors, 0 or 1/(1 - rate), for a loop to apply one step at a time."""
        steps = 1 if self.variational else like.shape[1]
        shape = like.shape[0], steps, like.shape[2]
        if not self.drops:
            return torch.ones(shape, device=like.device, dtype=like.dtype)
        if like.is_cuda:
            drawn = torch.empty(shape, device=like.device, dtype=like.dtype).bernoulli_(1.0 - self.rate)
        else:
            drawn = _coins(shape, self.rate).to(like.dtype)
        return drawn.mul_(1.0 / (1.0 - self.rate))


def _coins(shape: tuple[int, ...], rate: float) -> Float[Tensor, "B T D"]:
    """Sample ones, and zeros with probability `rate`, on a CPU.

    Torch uses a 64-bit random number for each, which takes a tenth of a Transformer's training time. Here it is 16
    bits: the probability is exact to 1 in 131,072. NumPy generates them twice as fast as torch, whose generator gives
    the seed.
    """
    count = math.prod(shape)
    seed = int(torch.empty((), dtype=torch.int64).random_())
    bits = torch.from_numpy(np.random.SFC64(seed).random_raw(-(-count // 4)).view(np.int16))
    lowest = round(rate * (1 << 16)) - (1 << 15)
    return bits[:count].to(torch.float32).ge_(lowest).view(shape)
