"""The 1.5-entmax focus."""

from typing import Any

import torch

from regard.attention.base import focuses
from regard.attention.focus.simplex import BELOW, OnSimplex
from regard.shapes import Float, Tensor


class _Entmax(torch.autograd.Function):
    r"""Exact, by sorting (the paper's algorithm 2). The Jacobian is `diag(s) - s s^T / sum(s)`, `s` = √weights.

    If the support is the k largest of `z = e / 2`, their weights sum to one where

    .. math:: \sum_{j \le k} (z_{(j)} - \tau)^2 = 1 \iff \tau = M_k - \sqrt{(1 - S_k) / k}

    with `M_k` their mean and `S_k` the sum of their squared distances from it.
    """

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        """Expects rows whose maximum is zero, so that scores below -2 get no weight."""
        halves = scores / 2
        descending = halves.clamp_min(BELOW).sort(dim=-1, descending=True).values
        count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        mean = descending.cumsum(dim=-1) / count
        spread = descending.square().cumsum(dim=-1) - count * mean.square()
        tau = mean - ((1 - spread) / count).clamp_min(0.0).sqrt()
        size = (tau <= descending).sum(dim=-1, keepdim=True)
        weights = (halves - tau.gather(-1, size - 1)).clamp_min(0.0).square()
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        """Subtract the mean weighted by the square roots of the weights, then multiply by them."""
        weights: Tensor = ctx.saved_tensors[0]
        roots = weights.sqrt()
        mean = (gradient * roots).sum(dim=-1, keepdim=True) / roots.sum(dim=-1, keepdim=True)
        return (gradient - mean) * roots


@focuses.register("entmax")
class Entmax(OnSimplex):
    r"""1.5-entmax, halfway between softmax and sparsemax (Peters et al. 2019, section 3).

    .. math:: \alpha = \arg\max_{p \in \Delta} p^\top e + H_{1.5}(p) = \max(e / 2 - \tau(e), 0)^2 \qquad
        H_{1.5}(p) = \frac{4}{3} \sum_j (p_j - p_j^{1.5})

    As sparse as sparsemax, and smooth like softmax where it is not zero.
    Differs from the paper: only allowed positions are corners of the simplex. α is fixed at 1.5, the value that the
    paper found best and for which the threshold is exact.
    """

    mapping = _Entmax
