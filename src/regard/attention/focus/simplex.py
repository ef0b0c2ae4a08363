"""What the focuses share: numerically safe rows of scores, sampling, and one-hot weights."""

from typing import ClassVar

import torch

from regard.attention.base import Focus, Focused
from regard.masks import exact
from regard.shapes import Bool, Float, Int, Tensor

BELOW = -4.0
"""What `shifted` gives forbidden scores: sparsemax gives no weight to 1 below the maximum, entmax to 2 below."""


class OnSimplex(Focus):
    """Maps each row to a point of the simplex, by a function with a backward of its own."""

    mapping: ClassVar[type[torch.autograd.Function]]
    """Applied to the rows that `shifted` returns."""

    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Map each row to the simplex, whose corners are the allowed positions."""
        weights: Tensor = self.mapping.apply(shifted(scores, allowed))  # type: ignore[no-untyped-call]
        return Focused(weights.masked_fill(~allowed, 0.0).to(scores.dtype))


def shifted(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Float[Tensor, "*N S"]:
    """Shift each row so that its largest allowed score is zero, and set forbidden scores below it; all finite.

    A row where nothing is allowed gets equal values; the caller sets its weights to zero.
    """
    forbidden, scores = ~allowed, exact(scores)
    top = scores.detach().masked_fill(forbidden, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    return (scores - top).masked_fill(forbidden, BELOW)


def log_softmax(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Float[Tensor, "*N S"]:
    """Logarithm of the softmax over the allowed positions, in at least float32; zero, with no gradient, elsewhere."""
    forbidden, scores = ~allowed, exact(scores)
    lowest = torch.finfo(scores.dtype).min
    return torch.log_softmax(scores.masked_fill(forbidden, lowest), dim=-1).masked_fill(forbidden, 0.0)


def gumbel_noise(like: Float[Tensor, "*N S"]) -> Float[Tensor, "*N S"]:
    """Sample from the standard Gumbel distribution: the argmax of `log p + noise` is a sample from `p`."""
    return -torch.empty_like(like).exponential_().clamp_min(torch.finfo(like.dtype).tiny).log()


def one_hot(index: Int[Tensor, "*N"], allowed: Bool[Tensor, "*#N S"], like: Tensor) -> Float[Tensor, "*N S"]:
    """One-hot weights for each row; all zero if that position is not allowed, as in a row where nothing is."""
    chosen = torch.zeros_like(like).scatter_(-1, index[..., None], 1.0)
    return chosen.masked_fill(~allowed, 0.0)


def greatest(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Int[Tensor, "*N"]:
    """Index of the largest allowed score, the first of equals; arbitrary where nothing is allowed."""
    return scores.masked_fill(~allowed, -torch.inf).argmax(dim=-1)
