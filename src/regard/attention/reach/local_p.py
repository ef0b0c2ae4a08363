"""The predictive local reach."""

import math

import torch
from torch import nn

from regard.attention.base import LocalReach, Sizes, Window, reaches
from regard.attention.reach.local_m import around
from regard.shapes import Bool, Float, Place, Tensor


@reaches.register("local-p")
class LocalP(LocalReach):
    r"""Attend around a position that is predicted from the query (Luong et al. 2015, equations 9 and 10: local-p).

    .. math::
        p_t = S \cdot \mathrm{sigmoid}\left(v_p^\top \tanh(W_p h_t)\right), \quad v_p = v / \sqrt{Q} \qquad
        R_t = \{s : |s - p_t| \le D\} \qquad
        a_t(s) = \mathrm{align}(h_t, \bar h_s) \exp\left(-\frac{(s - p_t)^2}{2 \sigma^2}\right), \quad \sigma = D / 2

    `S` is the row's real length, `D` is `model.attention.window`. The window's bounds have no gradient; `v` and `W_p`
    learn through the Gaussian. As in the paper, the weights are not normalised again, so their sum is below one.
    Costs `T·D`, however long the source is; a short one is scored in full, as with local-m.
    Differs from the paper: positions count from 0; all heads share one centre; and the parameter is `v`, the paper's
    `v_p` times the square root of the state's width `Q`. That leaves the model the same but slows the centre down: Adam
    moves every weight by about the learning rate, and `v_p^\top` sums over `Q` of them. With `v_p` itself, every centre
    reached an end of its sentence within a hundred steps, where the sigmoid has no gradient.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.raw_query or sizes.query
        self.width = sizes.window
        self.W_p = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)

    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place, most: int) -> Window:
        """Return the window around the predicted position, and the Gaussian factor."""
        logit = self.v(torch.tanh(self.W_p(query)))
        # At least float32: half precision cannot tell neighbouring positions apart.
        exact = torch.promote_types(logit.dtype, torch.float32)
        centre = mask.sum(dim=1)[:, None, None] * torch.sigmoid(logit.to(exact) / math.sqrt(self.v.in_features))
        window, away = around(centre, self.width, mask, most)
        factor = torch.exp(away.square() * (-0.5 / (self.width / 2) ** 2))
        return window._replace(factor=factor.to(logit.dtype))
