"""The softmax focus."""

from regard.attention.base import Focus, Focused, focuses
from regard.masks import masked_softmax
from regard.shapes import Bool, Float, Tensor


@focuses.register("softmax")
class Softmax(Focus):
    r"""Weights proportional to the exponential of the score (Bahdanau et al. 2014, equation 6).

    .. math:: \alpha_{ij} = \exp(e_{ij}) / \sum_k \exp(e_{ik})

    Differs from the paper: the sum is over allowed positions only, so padding gets exactly zero.
    """

    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Normalise each row over what is allowed."""
        return Focused(masked_softmax(scores, allowed))
