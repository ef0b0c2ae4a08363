"""Hard attention with a soft gradient."""

from regard.attention.base import Focus, Focused, focuses
from regard.attention.focus.simplex import greatest, gumbel_noise, one_hot
from regard.masks import exact, masked_softmax
from regard.shapes import Bool, Float, Tensor


@focuses.register("gumbel")
class Gumbel(Focus):
    r"""Attend to one sampled position, with the gradient of soft attention (straight-through: Jang et al. 2017, 2.2).

    .. math:: y = \mathrm{softmax}((e + g) / \tau) \qquad g_j = -\log(-\log u_j), \; u_j \sim U(0, 1)

    Forward, all weight is on the largest `y_j`, which is a sample from the softmax of the scores; backward, the
    gradient is that of `y`. In evaluation all weight is on the largest score.
    Differs from the paper: `τ` stays 1 and is not annealed. `model.attention.temperature` divides the scores before the
    noise is added: a low one makes samples less random, not `y` sharper.
    """

    def forward(
        self,
        scores: Float[Tensor, "B H T S"],
        allowed: Bool[Tensor, "B #H #T S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Sample a position for each row in training; take the best in evaluation."""
        noisy = exact(scores)
        if not self.training:
            return Focused(one_hot(greatest(noisy, allowed), allowed, scores))
        noisy = noisy + gumbel_noise(noisy)
        soft = masked_softmax(noisy, allowed)
        drawn = one_hot(greatest(noisy.detach(), allowed), allowed, noisy)
        # `soft - soft.detach()` is exactly zero, so the weights are exactly one-hot.
        return Focused((drawn + (soft - soft.detach())).to(scores.dtype))
