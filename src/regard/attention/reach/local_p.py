"""The predictive local reach."""

import math

import torch
from torch import nn

from regard.attention.base import LocalReach, Sizes, Window, reaches
from regard.attention.reach.local_m import around
from regard.shapes import Bool, Float, Place, Tensor


@reaches.register("local-p")
class LocalP(LocalReach):
    r"""Look around a place that is predicted from the query (Luong et al. 2015, equations 9 and 10: local-p).

    .. math::
        p_t = S \cdot \mathrm{sigmoid}\left(v_p^\top \tanh(W_p h_t)\right), \quad v_p = v / \sqrt{Q} \qquad
        R_t = \{s : |s - p_t| \le D\} \qquad
        a_t(s) = \mathrm{align}(h_t, \bar h_s) \exp\left(-\frac{(s - p_t)^2}{2 \sigma^2}\right), \quad \sigma = D / 2

    `S` is the row's real length, `D` is `model.attention.window`. Where the window ends has no gradient; it is the
    Gaussian that teaches `v` and `W_p`. As in the paper, the weights are not normalised again: their sum is below one.
    Costs `T·D`, however long the source is; a short one is looked at whole, as with local-m.
    Differs from the paper: positions count from 0; all heads share one centre; and what is learnt is `v`, the paper's
    `v_p` times the root of the state's width `Q`. That changes nothing that can be learnt, but how: a step of Adam
    moves every weight by the rate. The sum over `v_p` moved by all of them at once, and within a hundred steps every
    centre lay at an end of its sentence, where the sigmoid has no gradient.
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes)
        width = sizes.raw_query or sizes.query
        self.width = sizes.window
        self.W_p = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, 1, bias=False)

    def window(self, query: Float[Tensor, "B T Q"], mask: Bool[Tensor, "B S"], first: Place, most: int) -> Window:
        """The places around the predicted one, and the Gaussian."""
        told = self.v(torch.tanh(self.W_p(query)))
        # In float32 at least: half precision does not know one position from the next.
        exact = torch.promote_types(told.dtype, torch.float32)
        centre = mask.sum(dim=1)[:, None, None] * torch.sigmoid(told.to(exact) / math.sqrt(self.v.in_features))
        window, away = around(centre, self.width, mask, most)
        factor = torch.exp(away.square() * (-0.5 / (self.width / 2) ** 2))
        return window._replace(factor=factor.to(told.dtype))
