r"""Output layer and loss in one: logits are made for a few tokens at a time, turned into their gradient, and let go.

Autograd would keep the logits of all tokens, N × W of them, and read and write as many several times over. Here the
gradient of the loss with respect to logits is made where the logits stood,

.. math:: \frac{\partial}{\partial z_k} = p_k - q'(k)

and goes on at once into those of the features and of the output layer. Training uses this; the plain versions are
`loss.cross_entropy` and, for R-Drop, `auxiliary_losses.disagreement`, and this is tested against them.
"""

import importlib.util
from typing import Any, NamedTuple

import torch
from torch import nn

from regard.shapes import Float, Int, Tensor

CHUNK = {"cpu": 1 << 22, "cuda": 1 << 28}
"""About how many logits are made at a time: on a CPU what its caches hold, on a GPU what keeps it busy."""


LEAST = -60.0
"""Log-probability below which a target's gradient grows no more, so that it stays finite."""


class OutputLoss(NamedTuple):
    """What the tokens of a batch cost."""

    total: Float[Tensor, ""]
    """What is made small: the sum of the smoothed cross-entropies; with R-Drop, half the sum over two passes."""
    smoothed: Float[Tensor, ""]
    """The cross-entropy in it, detached."""
    nll: Float[Tensor, " N"]
    """Negative log-likelihood of each token, detached."""
    r_drop: Float[Tensor, ""]
    """Sum of the disagreements of two passes, detached; 0 where there is one pass."""


class LossOptions(NamedTuple):
    """What the loss is made of."""

    smoothing: float
    r_drop: float
    """Weight of the disagreement; above 0 the second half of the tokens is another pass over the first."""


def output_loss(
    output: nn.Linear,
    features: Float[Tensor, "N D"],
    targets: Int[Tensor, " N"],
    options: LossOptions,
    copied: Float[Tensor, "N 2"] | None = None,
) -> OutputLoss:
    """Return the loss of features that the output layer is to read; a target below 0 is none, and costs nothing.

    Where a decoder copies, `copied` tells what is left to the output layer, and how probable copying makes each target.
    """
    return OutputLoss(*_OutputLoss.apply(features, output.weight, output.bias, copied, targets, options))  # type: ignore[no-untyped-call]


class _OutputLoss(torch.autograd.Function):
    """Makes all gradients on the way forward; on the way back they are only scaled."""

    @staticmethod
    def forward(
        ctx: Any,
        features: Float[Tensor, "N D"],
        weight: Float[Tensor, "W D"],
        bias: Float[Tensor, " W"],
        copied: Float[Tensor, "N 2"] | None,
        targets: Int[Tensor, " N"],
        options: LossOptions,
    ) -> tuple[Tensor, ...]:
        kind, device = _precision(features, weight), features.device
        reading, table, offset = features.to(kind), weight.to(kind), bias.to(kind)
        to_features, to_weight = torch.empty_like(reading), None
        sums_in = torch.promote_types(bias.dtype, torch.float32)
        to_bias = torch.zeros_like(bias, dtype=sums_in)
        to_copied = None if copied is None else torch.empty_like(copied)
        sums = torch.zeros(2, device=device)
        nll = torch.empty(features.shape[0], device=device)
        for rows in _chunks(features.shape[0], weight.shape[0], options.r_drop > 0, device):
            logits = torch.addmm(offset, reading[rows], table.t())
            if copied is None or to_copied is None:
                found = _rows(logits, targets[rows], options)
            else:
                found, to_copied[rows] = mixed_rows(logits, targets[rows], copied[rows], options.smoothing)
            sums += torch.stack((found.smoothed, found.r_drop))
            nll[rows] = found.nll
            grad_logits = found.grad_logits.to(kind)
            to_features[rows] = grad_logits @ table
            if to_weight is None:
                to_weight = (grad_logits.t() @ reading[rows]).float()
            elif kind == sums_in:
                to_weight.addmm_(grad_logits.t(), reading[rows])
            else:
                to_weight += grad_logits.t() @ reading[rows]
            # Of the slopes before they were rounded, where they are still there.
            to_bias += found.grad_logits.sum(dim=0, dtype=sums_in)
        to_weight = torch.zeros_like(weight) if to_weight is None else to_weight.to(weight.dtype)
        ctx.save_for_backward(to_features.to(features.dtype), to_weight, to_bias.to(bias.dtype), to_copied)
        smoothed, r_drop = sums.mul_(0.5 if options.r_drop > 0 else 1.0).unbind()
        total, smoothed, r_drop = smoothed + options.r_drop * r_drop, smoothed.clone(), 2 * r_drop
        ctx.mark_non_differentiable(smoothed, nll, r_drop)
        return total, smoothed, nll, r_drop

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, slope: Float[Tensor, ""], *_: Tensor) -> tuple[Tensor | None, ...]:
        return *(None if saved is None else saved * slope for saved in ctx.saved_tensors), None, None


class LossOfLogits(NamedTuple):
    """What the logits of some tokens give."""

    smoothed: Float[Tensor, ""]
    r_drop: Float[Tensor, ""]
    nll: Float[Tensor, " N"]
    grad_logits: Float[Tensor, "N W"]
    """The gradient with respect to the logits; it may stand where they stood."""


def mixed_rows(
    logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], copied: Float[Tensor, "N 2"], smoothing: float
) -> tuple[LossOfLogits, Float[Tensor, "N 2"]]:
    r"""Return loss and gradient where targets may be copied, and the gradient with respect to `copied`.

    Of a target, `g` is what is left to the output layer, `p` is what that says, and `c` is what copying adds:

    .. math::
        L = -\log(g p + c) \qquad \frac{\partial L}{\partial z_k} = \frac{g p}{g p + c} (p_k - \delta_{ky}) \qquad
        \frac{\partial L}{\partial g} = \frac{-p}{g p + c} \qquad \frac{\partial L}{\partial c} = \frac{-1}{g p + c}

    Labels are smoothed over what the output layer says: no row of the vocabulary is made of what is copied.
    """
    none, at = (targets < 0)[:, None], targets.clamp_min(0)[:, None]
    right, mean = (logits.gather(1, at).float(), logits.float().mean(dim=1, keepdim=True)) if smoothing else (0.0, 0.0)
    plain = _rows(logits, targets, LossOptions(0.0, 0.0))
    left, copies = copied.float().log().unbind(dim=1)
    written = left[:, None] - plain.nll[:, None]
    whole = torch.logaddexp(written, copies[:, None])
    share = (written - whole).exp()
    to_copied = torch.cat((share / copied[:, :1].float(), whole.clamp_min(LEAST).neg().exp()), dim=1)
    nll = whole.neg().masked_fill(none, 0.0)
    grad_logits, smoothed = plain.grad_logits.mul_((1 - smoothing) * share + smoothing), (1 - smoothing) * nll.sum()
    if smoothing:
        uniform = (plain.nll[:, None] + right - mean).masked_fill(none, 0.0)
        smoothed = smoothed + smoothing * uniform.sum()
        grad_logits.sub_(smoothing / logits.shape[1]).scatter_add_(
            1, at, torch.full_like(nll, smoothing).to(grad_logits.dtype)
        )
        grad_logits.masked_fill_(none, 0.0)
    to_copied = ((smoothing - 1) * to_copied).masked_fill(none, 0.0).to(copied.dtype)
    return LossOfLogits(smoothed, smoothed.new_zeros(()), nll[:, 0], grad_logits), to_copied


def _rows(logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], options: LossOptions) -> LossOfLogits:
    if logits.is_cuda and logits.shape[0] and importlib.util.find_spec("triton") is not None:
        from regard.training import loss_kernels

        return loss_kernels.rows(logits, targets, options)
    if logits.device.type == "cpu" and logits.numel() and options.r_drop == 0:
        return _host_rows(logits, targets, options)
    return plain_rows(logits, targets, options)


def _host_rows(logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], options: LossOptions) -> LossOfLogits:
    r"""Return loss and gradient where exponentials are dear: each is taken once, and none is kept that is not needed.

    The logarithm of their sum follows from the largest logit and its probability, :math:`z_{max} - \log p_{max}`.
    """
    logits, size, none = logits.float(), logits.shape[1], (targets < 0)[:, None]
    at = targets.clamp_min(0)[:, None]
    right, highest = logits.gather(1, at), logits.amax(dim=-1, keepdim=True)
    sums = logits.sum(dim=-1, keepdim=True) if options.smoothing else None
    grad_logits = torch.softmax(logits, dim=-1, out=logits)
    normaliser = highest - grad_logits.amax(dim=-1, keepdim=True).log()
    nll = (normaliser - right).masked_fill_(none, 0.0)
    smoothed = (1 - options.smoothing) * nll.sum()
    if sums is not None:
        smoothed = smoothed + options.smoothing * (normaliser - sums / size).masked_fill_(none, 0.0).sum()
        grad_logits.sub_(options.smoothing / size)
    grad_logits.scatter_add_(1, at, torch.full_like(right, options.smoothing - 1))
    if none.any():
        grad_logits.masked_fill_(none, 0.0)
    return LossOfLogits(smoothed, smoothed.new_zeros(()), nll[:, 0], grad_logits)


def plain_rows(logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], options: LossOptions) -> LossOfLogits:
    r"""Return loss and gradient by torch's own operations.

    With R-Drop, where `a` and `b` are the log-probabilities of the two passes, `p` has beside the cross-entropy's

    .. math:: \frac{\alpha}{2} \left( p (a - b) + p - q - p\, D_{KL}(p \| q) \right)

    and all of it counts half, since there are two passes.
    """
    log_probs, size = logits.float().log_softmax(dim=-1), logits.shape[1]
    none = (targets < 0)[:, None]
    some_are_none = targets.is_cuda or bool(none.any())
    if some_are_none:
        log_probs, targets = log_probs.masked_fill(none, 0.0), targets.clamp_min(0)
    at = targets[:, None]
    nll = -log_probs.gather(1, at)[:, 0]
    smoothed = (1 - options.smoothing) * nll.sum()
    if options.smoothing:
        smoothed = smoothed - options.smoothing / size * log_probs.sum()
    share = 0.5 if options.r_drop > 0 else 1.0
    right = log_probs.new_full(at.shape, share * (options.smoothing - 1))
    if options.r_drop == 0:
        grad_logits, r_drop = log_probs.exp_(), smoothed.new_zeros(())
    else:
        grad_logits, r_drop = _r_drop_gradient(log_probs, options.r_drop)
    if options.smoothing:
        grad_logits.sub_(share * options.smoothing / size)
    grad_logits.scatter_add_(1, at, right)
    return LossOfLogits(smoothed, r_drop, nll, grad_logits.masked_fill_(none, 0.0) if some_are_none else grad_logits)


def _r_drop_gradient(log_probs: Float[Tensor, "N W"], weight: float) -> tuple[Tensor, Tensor]:
    """Return half the probabilities with the slopes of the disagreement added, and the disagreement."""
    half = log_probs.shape[0] // 2
    probs, further = log_probs.exp(), log_probs[:half] - log_probs[half:]
    one, other = probs[:half], probs[half:]
    there = (one * further).sum(dim=-1, keepdim=True)
    back = -(other * further).sum(dim=-1, keepdim=True)
    r_drop, difference = (there + back).sum() / 2, one - other
    pull = weight / 4
    grad_logits = torch.cat(
        (
            one * (0.5 + pull * (further - there)) + pull * difference,
            other * (0.5 - pull * (further + back)) - pull * difference,
        )
    )
    return grad_logits, r_drop


def _chunks(count: int, width: int, paired: bool, device: torch.device) -> list[Any]:
    """Cut tokens into parts; with R-Drop a part has the tokens of one pass, and the same of the other after them."""
    most = max(1, CHUNK[device.type] // max(width, 1))
    if not paired:
        return [slice(first, first + most) for first in range(0, count, most)]
    half = count // 2
    if count <= most:
        return [slice(0, count)]
    starts = range(0, half, max(1, most // 2))
    parts = [torch.arange(first, min(first + max(1, most // 2), half), device=device) for first in starts]
    return [torch.cat((part, part + half)) for part in parts]


def _precision(features: Float[Tensor, "N D"], weight: Float[Tensor, "W D"]) -> torch.dtype:
    """Return what products are computed in: as `nn.Linear` would, under autocast too."""
    kind = features.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else weight.dtype
