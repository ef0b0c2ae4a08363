"""Hard monotonic attention."""

import torch
from torch import nn
from torch.nn import functional

from regard.attention.base import Focus, Focused, Sizes, focuses
from regard.masks import exact
from regard.shapes import Bool, Float, Tensor


@focuses.register("monotonic")
class Monotonic(Focus):
    r"""Go through the source from left to right, and stop where it fits (Raffel et al. 2017, section 2).

    From where the last look stopped, go on position by position; at each, stop with the probability `p` and look there:

    .. math:: p_{i,j} = \sigma(e_{i,j} + r) \qquad
        \alpha_{i,j} = p_{i,j} q_{i,j}, \quad q_{i,j} = (1 - p_{i,j-1}) q_{i,j-1} + \alpha_{i-1,j}

    Training uses the expectation `α` over all ways to stop, with noise of variance one on the scores, which drives `p`
    to 0 or 1 (the paper's "training in expectation" and "encouraging discreteness"). Evaluation stops at the first
    position from the last one on where `p > 1/2`, and `Attention` scores no others (onward.py): time is linear in the
    source and target lengths. Where it stops nowhere, it looks at nothing: the weights are zero, and the next look
    starts from the same place. So weights sum to one or less, in training too.
    Differs from the paper: any score may give `e`, where the paper has an additive one with a normalised vector; each
    head has its own offset `r`; and `q` is computed by a scan in log2 S rounds, as the paper's quotient of cumulative
    products needs a bound that loses what lies behind a product below it. What ran off the end in the expectation is
    lost to later looks, while evaluation starts again from the last place.
    """

    goes_on = True

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        self.r = nn.Parameter(torch.full((sizes.heads,), -1.0))

    def forward(
        self,
        scores: Float[Tensor, "B H 1 S"],
        allowed: Bool[Tensor, "B #H 1 S"],
        last: Float[Tensor, "B H S"] | None = None,
    ) -> Focused:
        """Move on from the last look; before the first, from the first position."""
        logits = (exact(scores) + self.r[:, None, None])[:, :, 0]
        allowed = allowed[:, :, 0]
        if last is None:
            last = functional.pad(torch.ones_like(logits[..., :1]), (0, logits.shape[-1] - 1))
        if self.training:
            stop = torch.sigmoid(logits + torch.randn_like(logits)).masked_fill(~allowed, 0.0)
            return Focused((stop * _reached(stop, exact(last)))[:, :, None].to(scores.dtype))
        fits = self.fits(scores) & allowed & (last.cumsum(dim=-1) > 0)
        first = fits & (fits.cumsum(dim=-1) == 1)
        place = torch.where(first.any(dim=-1, keepdim=True), first.to(last.dtype), last)
        return Focused(first[:, :, None].to(scores.dtype), place=place[:, :, None])

    def fits(self, scores: Float[Tensor, "B H 1 S"]) -> Bool[Tensor, "B H S"]:
        """Say where it would stop in evaluation: where `p > 1/2`."""
        return (exact(scores) + self.r[:, None, None])[:, :, 0] > 0


def _reached(stop: Float[Tensor, "B H S"], last: Float[Tensor, "B H S"]) -> Float[Tensor, "B H S"]:
    """Compute `q`: how probably each position is come to.

    The recurrence is linear, `q_j = a_j q_{j-1} + b_j`, and two of its steps are one step of the same form: each round
    joins every step with the one as far back as all that it has joined already. All factors are between 0 and 1.
    """
    came, kept = last, functional.pad(1 - stop[..., :-1], (1, 0))
    far = 1
    while far < stop.shape[-1]:
        came = came + kept * functional.pad(came[..., :-far], (far, 0))
        kept = kept * functional.pad(kept[..., :-far], (far, 0))
        far *= 2
    return came
