"""The cosine score."""

import torch
from torch import nn

from regard.attention.base import Sizes, scores
from regard.attention.score.dot import Dot
from regard.masks import exact
from regard.shapes import Float, Tensor


@scores.register("cosine")
class Cosine(Dot):
    r"""Score by the angle between query and key (content-based: Graves et al. 2014, equations 5 and 6).

    .. math:: \mathrm{score}(u, v) = \beta \, \frac{u^\top v}{\|u\| \, \|v\|}

    A softmax of cosines alone is nearly flat, as they lie between -1 and 1; the strength `β` makes it sharper.
    Differs from the paper: its controller emits a `β` at every step; here each head learns one. It starts at the square
    root of the width, where the scores of random vectors have variance one, and is stored as its logarithm, to stay
    positive. A zero vector, which has no angle, scores zero with everything.
    """

    needs = "cosine score needs"

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.log_beta = nn.Parameter(torch.full((sizes.heads,), sizes.query**0.5).log())

    def keys(self, states: Float[Tensor, "B G S D"]) -> Float[Tensor, "B G S D"]:
        """The states, normalised to unit length."""
        return _normalised(states)

    def asked(self, query: Float[Tensor, "B H T Q"]) -> Float[Tensor, "B H T Q"]:
        """The query, normalised to unit length, times `β`."""
        return _normalised(query) * self.log_beta.exp()[:, None, None]


def _normalised(vectors: Float[Tensor, "B H T D"]) -> Float[Tensor, "B H T D"]:
    """Normalise vectors to unit length; zero vectors stay zero, with the gradient of a unit vector."""
    summed = exact(vectors)
    square = summed.square().sum(dim=-1, keepdim=True)
    return (summed * square.masked_fill(square == 0, 1.0).rsqrt()).to(vectors.dtype)
