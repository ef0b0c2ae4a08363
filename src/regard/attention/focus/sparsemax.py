"""The sparsemax focus."""

from typing import Any

import torch

from regard.attention.base import focuses
from regard.attention.focus.simplex import BELOW, OnSimplex
from regard.shapes import Float, Tensor


class _Sparsemax(torch.autograd.Function):
    """Exact, by sorting (the paper's algorithm 1). The Jacobian is `diag(s) - s s^T / |S|` (section 2.5)."""

    @staticmethod
    def forward(ctx: Any, scores: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        """Expects rows whose maximum is zero, so that scores below -1 get no weight."""
        descending = scores.clamp_min(BELOW).sort(dim=-1, descending=True).values
        count = torch.arange(1, scores.shape[-1] + 1, dtype=scores.dtype, device=scores.device)
        excess = descending.cumsum(dim=-1) - 1
        size = (count * descending > excess).sum(dim=-1, keepdim=True)
        weights = (scores - excess.gather(-1, size - 1) / size).clamp_min(0.0)
        ctx.save_for_backward(weights)
        return weights

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Float[Tensor, "B H T S"]) -> Float[Tensor, "B H T S"]:
        """Subtract the mean over the support, within the support; the gradient is zero outside it."""
        weights: Tensor = ctx.saved_tensors[0]
        support = weights > 0
        mean = (gradient * support).sum(dim=-1, keepdim=True) / support.sum(dim=-1, keepdim=True)
        return (gradient - mean) * support


@focuses.register("sparsemax")
class Sparsemax(OnSimplex):
    r"""The point of the simplex that is nearest to the scores (Martins & Astudillo 2016, sections 2.1, 2.2).

    .. math:: \alpha = \arg\min_{p \in \Delta} \|p - e\|^2 = \max(e - \tau(e), 0) \qquad
        \tau(e) = \frac{(\sum_{j \le k} e_{(j)}) - 1}{k}, \quad k = \max\{k : 1 + k e_{(k)} > \sum_{j \le k} e_{(j)}\}

    Where softmax gives every position some weight, this gives exactly zero to those that score low.
    Differs from the paper: only allowed positions are corners of the simplex.
    """

    mapping = _Sparsemax
