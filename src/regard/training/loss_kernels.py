"""Loss and gradient of logits on a GPU: each token's logits are read from memory once and written once (Triton)."""
# What Triton compiles has no types that Python's would fit.
# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-decorators

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl

from regard.shapes import Float, Int, Tensor
from regard.training.fused_loss import LossOfLogits, LossOptions


@triton.jit
@no_type_check
def _normaliser(row, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    """Return the log of the sum of exponentials of a row, and the plain sum of it."""
    most, total, plain = float("-inf"), 0.0, 0.0
    for first in range(0, WIDTH, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z = tl.load(row + at, mask=at < WIDTH, other=float("-inf")).to(tl.float32)
        above = tl.maximum(most, tl.max(z, axis=0))
        total = total * tl.exp(most - above) + tl.sum(tl.exp(z - above), axis=0)
        plain += tl.sum(tl.where(at < WIDTH, z, 0.0), axis=0)
        most = above
    return most + tl.log(total), plain


@triton.jit
@no_type_check
def _one(
    logits,
    targets,
    nll,
    smoothed,
    smoothing,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Turn one row of logits into its gradient."""
    token = tl.program_id(0).to(tl.int64)
    row, target = logits + token * WIDTH, tl.load(targets + token)
    real = (target >= 0).to(tl.float32)
    log_total, plain = _normaliser(row, WIDTH, BLOCK)
    cost = real * (log_total - tl.load(row + tl.maximum(target, 0)).to(tl.float32))
    tl.store(nll + token, cost)
    tl.store(smoothed + token, (1 - smoothing) * cost + real * smoothing * (log_total - plain / WIDTH))
    for first in range(0, WIDTH, BLOCK):
        at = first + tl.arange(0, BLOCK)
        z = tl.load(row + at, mask=at < WIDTH, other=0.0).to(tl.float32)
        slope = tl.exp(z - log_total) - smoothing / WIDTH - tl.where(at == target, 1 - smoothing, 0.0)
        tl.store(row + at, (real * slope).to(row.dtype.element_ty), mask=at < WIDTH)


@triton.jit
@no_type_check
def _two(
    logits,
    targets,
    nll,
    smoothed,
    r_drop,
    half,
    smoothing,
    weight,
    WIDTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Turn the rows of one token in two passes into their gradients."""
    token = tl.program_id(0).to(tl.int64)
    row, other, target = logits + token * WIDTH, logits + (token + half) * WIDTH, tl.load(targets + token)
    real, right = (target >= 0).to(tl.float32), tl.maximum(target, 0)
    log_p, plain_p = _normaliser(row, WIDTH, BLOCK)
    log_q, plain_q = _normaliser(other, WIDTH, BLOCK)
    cost_p = real * (log_p - tl.load(row + right).to(tl.float32))
    cost_q = real * (log_q - tl.load(other + right).to(tl.float32))
    tl.store(nll + token, cost_p)
    tl.store(nll + token + half, cost_q)
    uniform = real * (log_p - plain_p / WIDTH + log_q - plain_q / WIDTH)
    tl.store(smoothed + token, (1 - smoothing) * (cost_p + cost_q) + smoothing * uniform)
    there, back = 0.0, 0.0
    for first in range(0, WIDTH, BLOCK):
        at = first + tl.arange(0, BLOCK)
        a = tl.load(row + at, mask=at < WIDTH, other=-1e30).to(tl.float32) - log_p
        b = tl.load(other + at, mask=at < WIDTH, other=-1e30).to(tl.float32) - log_q
        there += tl.sum(tl.where(at < WIDTH, tl.exp(a) * (a - b), 0.0), axis=0)
        back += tl.sum(tl.where(at < WIDTH, tl.exp(b) * (b - a), 0.0), axis=0)
    tl.store(r_drop + token, real * (there + back) / 2)
    pull = weight / 2
    for first in range(0, WIDTH, BLOCK):
        at = first + tl.arange(0, BLOCK)
        a = tl.load(row + at, mask=at < WIDTH, other=0.0).to(tl.float32) - log_p
        b = tl.load(other + at, mask=at < WIDTH, other=0.0).to(tl.float32) - log_q
        p, q = tl.exp(a), tl.exp(b)
        label = smoothing / WIDTH + tl.where(at == target, 1 - smoothing, 0.0)
        to_p = p - label + pull * (p * (a - b - there) + p - q)
        to_q = q - label + pull * (q * (b - a - back) + q - p)
        tl.store(row + at, (0.5 * real * to_p).to(row.dtype.element_ty), mask=at < WIDTH)
        tl.store(other + at, (0.5 * real * to_q).to(row.dtype.element_ty), mask=at < WIDTH)


def rows(logits: Float[Tensor, "N W"], targets: Int[Tensor, " N"], options: LossOptions) -> LossOfLogits:
    """Return what `fused_loss.plain_rows` returns; the gradient stands where the logits stood."""
    logits, targets = logits.contiguous(), targets.contiguous()
    count, width = logits.shape
    nll = torch.empty(count, device=logits.device)
    launch: dict[str, Any] = {"WIDTH": width, "BLOCK": min(4096, triton.next_power_of_2(width)), "num_warps": 8}
    if options.r_drop == 0:
        smoothed = torch.empty(count, device=logits.device)
        _one[(count,)](logits, targets, nll, smoothed, options.smoothing, **launch)
        return LossOfLogits(smoothed.sum(), smoothed.new_zeros(()), nll, logits)
    smoothed, r_drop = torch.empty(2, count // 2, device=logits.device)
    _two[(count // 2,)](logits, targets, nll, smoothed, r_drop, count // 2, options.smoothing, options.r_drop, **launch)
    return LossOfLogits(smoothed.sum(), r_drop.sum(), nll, logits)
