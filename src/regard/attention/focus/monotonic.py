"""Hard monotonic attention."""

import torch
from torch import nn
from torch.nn import functional

from regard.attention.base import Focus, Focused, Sizes, focuses
from regard.masks import exact
from regard.shapes import Bool, Float, Tensor


@focuses.register("monotonic")
class Monotonic(Focus):
    r"""Scan the source from left to right and attend to the position where it stops (Raffel et al. 2017, section 2).

    The scan starts where the last step stopped. At each position it stops with probability `p` and attends to it:

    .. math:: p_{i,j} = \sigma(e_{i,j} + r) \qquad
        \alpha_{i,j} = p_{i,j} q_{i,j}, \quad q_{i,j} = (1 - p_{i,j-1}) q_{i,j-1} + \alpha_{i-1,j}

    Training uses the expectation `α` over all ways to stop, with unit-variance noise on the scores, which drives `p` to
    0 or 1 (the paper's "training in expectation" and "encouraging discreteness"). Evaluation stops at the first
    position, from the last one on, where `p > 1/2`, and scores no other positions (monotonic_scan.py): time is linear
    in the source and target lengths. If it stops nowhere, the weights are zero and the next step starts from the same
    position. So weights sum to at most one, in training too.
    Differs from the paper: any score may give `e`, where the paper has an additive one with a normalised vector; each
    head has its own offset `r`; and `q` is computed by a parallel scan in log2 S rounds, since the paper's quotient of
    cumulative products needs a clamp that loses whatever comes after a product below it. In the expectation, mass that
    runs off the end is lost to later steps, while evaluation starts again from the last position.
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
        """Continue from the last step; the first step starts at the first position."""
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
        """Return where evaluation would stop: where `p > 1/2`."""
        return (exact(scores) + self.r[:, None, None])[:, :, 0] > 0


def _reached(stop: Float[Tensor, "B H S"], last: Float[Tensor, "B H S"]) -> Float[Tensor, "B H S"]:
    """Compute `q`, the probability that the scan reaches each position.

    The recurrence is linear, `q_j = a_j q_{j-1} + b_j`, and two of its steps compose to one of the same form: each
    round doubles the number of steps composed. All factors are between 0 and 1.
    """
    came, kept = last, functional.pad(1 - stop[..., :-1], (1, 0))
    far = 1
    while far < stop.shape[-1]:
        came = came + kept * functional.pad(came[..., :-far], (far, 0))
        kept = kept * functional.pad(kept[..., :-far], (far, 0))
        far *= 2
    return came
