r"""The ranking score of Wu et al. 2016 (section 7): length normalisation and coverage penalty.

.. math::
    s(Y, X) = \log P(Y|X) / lp(Y) + cp(X; Y) \\
    lp(Y) = \left(\frac{5 + |Y|}{5 + 1}\right)^\alpha \\
    cp(X; Y) = \beta \sum_{i=1}^{|X|} \log \min\left(\sum_{j=1}^{|Y|} p_{i,j},\, 1\right)

`|Y|` counts every target token, the end token included; `X` are all source tokens, the end token included.
"""

import torch

from regard.shapes import Bool, Float, Int, Tensor


def length_penalty(length: int, alpha: float) -> float:
    """Return lp for a hypothesis of this many tokens; 1 for `alpha = 0`."""
    return float(((5 + length) / 6) ** alpha)


def best_length_penalty(length: int, limits: Int[Tensor, " B"], alpha: float) -> Float[Tensor, " B"]:
    """Return the largest lp that a live hypothesis of `length` tokens can have when it ends, at its limit or before.

    A log-probability is at most zero and never rises, and the coverage penalty is never above zero; so
    `log P / best_length_penalty` is an upper bound of the final score. lp grows with the length for `alpha >= 0` and
    falls for `alpha < 0`: it is largest either at the limit or at the very next step.
    """
    return ((5 + limits) / 6).pow(alpha).clamp(min=length_penalty(length + 1, alpha))


def coverage_penalty(coverage: Float[Tensor, "*N S"], real: Bool[Tensor, "*#N S"], beta: float) -> Float[Tensor, "*N"]:
    """Return cp, given the total attention on each source position over all steps.

    A position without any attention would make it minus infinity, whatever the rest: it counts as the smallest normal
    number instead, so that two hypotheses that both missed something can still be compared.
    """
    smallest = torch.finfo(coverage.dtype).tiny
    return beta * coverage.clamp(min=smallest, max=1.0).log().masked_fill(~real, 0.0).sum(dim=-1)
