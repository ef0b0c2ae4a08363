"""Attention without gradients for few queries at a time: one kernel, from scores to contexts.

A step of beam search computes little, so kernel launches dominate its time. The kernel reads masks in place, reads a
causal query's position from the device, and takes keys and values from a preallocated cache.
"""

from typing import Any, no_type_check

import torch
import triton
import triton.language as tl

from regard.attention.fused.additive_kernels import SCALE, _inverse
from regard.shapes import Bool, Float, Int, Tensor

TILE = 4096
"""Elements of keys, and of values, that a program reads at once."""
WIDTH = 256
"""Units of the values that one program sums; wider values are split among programs, each recomputing the scores."""


@triton.jit(do_not_specialize=["S", "T"])
@no_type_check
def _look(
    Q, K, X, MASK, V, LAST, C, S, T, scale, q_b, q_h, q_t, k_b, k_g, k_s, x_b, x_g, x_s, m_b,
    HEADS: tl.constexpr, SHARE: tl.constexpr, A: tl.constexpr, W: tl.constexpr, BENT: tl.constexpr,
    LIMITED: tl.constexpr, BS: tl.constexpr, BA: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """Attend with one query of one head, and write BW units of its context."""
    i = tl.program_id(0)
    t, h, b = i % T, (i // T) % HEADS, (i // (T * HEADS)).to(tl.int64)
    group = h // SHARE
    a, w = tl.arange(0, BA), tl.program_id(1) * BW + tl.arange(0, BW)
    q = tl.load(Q + b * q_b + h * q_h + t * q_t + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
    if BENT:
        v = tl.load(V + h * A + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
    else:
        q = q * scale
    end = S
    if LIMITED:
        end = tl.minimum(S, tl.load(LAST).to(tl.int32) + 1)
    most, total = float("-inf"), 0.0
    seen = tl.zeros([BW], tl.float32)
    for start in range(0, end, BS):
        s = start + tl.arange(0, BS)
        inside = s < end
        real = inside & (tl.load(MASK + b * m_b + s, mask=inside, other=0) != 0)
        k = tl.load(
            K + b * k_b + group * k_g + s[:, None] * k_s + a[None, :],
            mask=inside[:, None] & (a < A)[None, :],
            other=0.0,
        )
        if BENT:
            units = v * (1.0 - 2.0 * _inverse(1.0 + tl.exp2((q + k.to(tl.float32)) * SCALE)))
        else:
            units = q * k.to(tl.float32)
        e = tl.where(real, tl.sum(units, axis=1), float("-inf"))
        above = tl.maximum(most, tl.max(e, axis=0))
        base = tl.where(above == float("-inf"), 0.0, above)
        p = tl.exp(e - base)
        kept = tl.exp(most - base)
        x = tl.load(
            X + b * x_b + group * x_g + s[:, None] * x_s + w[None, :],
            mask=inside[:, None] & (w < W)[None, :],
            other=0.0,
        )
        seen = seen * kept + tl.sum(p[:, None] * x.to(tl.float32), axis=0)
        total = total * kept + tl.sum(p, axis=0)
        most = above
    seen = seen / tl.where(total > 0.0, total, 1.0)
    tl.store(C + i.to(tl.int64) * W + w, seen.to(C.dtype.element_ty), mask=w < W)


def inference_attention(
    queries: Float[Tensor, "B H T A"],
    keys: Float[Tensor, "B G S A"],
    values: Float[Tensor, "B G S V"],
    mask: Bool[Tensor, "B S"],
    vectors: Float[Tensor, "H A"] | None = None,
    last: Int[Tensor, ""] | None = None,
    scale: float = 1.0,
) -> Float[Tensor, "B H T V"]:
    r"""`c = \sum_s \mathrm{softmax}_s(e) x_s`; `e` is `v^\top \tanh(q + k_s)`, or without vectors `q^\top k_s` scaled.

    If `last` is given, keys after that position are not allowed.
    """
    queries, keys, values = (part if part.stride(3) == 1 else part.contiguous() for part in (queries, keys, values))
    (batch, heads, steps, units), width = queries.shape, values.shape[3]
    found = values.new_empty(batch, heads, steps, width)
    across, wide = triton.next_power_of_2(units), min(WIDTH, triton.next_power_of_2(width))
    vectors = None if vectors is None else vectors.contiguous()
    chosen: Any = {
        "HEADS": heads, "SHARE": heads // keys.shape[1], "A": units, "W": width, "BENT": vectors is not None,
        "LIMITED": last is not None, "BS": max(2, TILE // max(across, wide)), "BA": across, "BW": wide,
    }  # fmt: skip
    _look[(batch * heads * steps, triton.cdiv(width, wide))](
        queries, keys, values, mask.view(torch.uint8), queries if vectors is None else vectors,
        mask if last is None else last, found, keys.shape[2], steps, scale,
        *queries.stride()[:3], *keys.stride()[:3], *values.stride()[:3], mask.stride(0), **chosen, num_warps=4,
        enable_fp_fusion=False,  # copies of a score in several threads must round alike
    )  # fmt: skip
    return found
