"""What the focuses share: rows of scores made safe, drawn from, and turned into one-hot weights."""

from typing import ClassVar

import torch

from regard.attention.base import Focus, Focused
from regard.masks import exact
from regard.shapes import Bool, Float, Int, Tensor

BELOW = -4.0
"""Where `shifted` puts what is forbidden: sparsemax gives nothing to what is 1 below the greatest, entmax 2 below."""


class OnSimplex(Focus):
    """Maps each row to a point of the simplex, by a function that has a backward of its own."""

    mapping: ClassVar[type[torch.autograd.Function]]
    """Of rows as `shifted` makes them."""

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
    """Shift each row so that its greatest allowed score is zero, and put the others below; all finite.

    A row where nothing is allowed is level; whoever asks erases it.
    """
    forbidden, scores = ~allowed, exact(scores)
    top = scores.detach().masked_fill(forbidden, torch.finfo(scores.dtype).min).amax(dim=-1, keepdim=True)
    return (scores - top).masked_fill(forbidden, BELOW)


def log_softmax(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Float[Tensor, "*N S"]:
    """Logarithms of a softmax over the allowed positions, in float32 or better; zero, and no gradient, elsewhere."""
    forbidden, scores = ~allowed, exact(scores)
    lowest = torch.finfo(scores.dtype).min
    return torch.log_softmax(scores.masked_fill(forbidden, lowest), dim=-1).masked_fill(forbidden, 0.0)


def gumbel_noise(like: Float[Tensor, "*N S"]) -> Float[Tensor, "*N S"]:
    """Draw from the standard Gumbel distribution: the greatest of `log p + noise` is a draw from `p`."""
    return -torch.empty_like(like).exponential_().clamp_min(torch.finfo(like.dtype).tiny).log()


def one_hot(index: Int[Tensor, "*N"], allowed: Bool[Tensor, "*#N S"], like: Tensor) -> Float[Tensor, "*N S"]:
    """All weight on one position of each row; none where that is not allowed, as in a row where nothing is."""
    chosen = torch.zeros_like(like).scatter_(-1, index[..., None], 1.0)
    return chosen.masked_fill(~allowed, 0.0)


def greatest(scores: Float[Tensor, "*N S"], allowed: Bool[Tensor, "*#N S"]) -> Int[Tensor, "*N"]:
    """The allowed position of the greatest score, the first of equals; any where nothing is allowed."""
    return scores.masked_fill(~allowed, -torch.inf).argmax(dim=-1)
