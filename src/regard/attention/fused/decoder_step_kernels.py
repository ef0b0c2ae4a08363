"""Triton kernels for attention with one query, as in each step of a decoder: two forward, two backward.

A step is limited by memory reads alone: keys and values, which are read once in each direction, mostly from the GPU's
cache. So programs are many and small, and each issues all its reads at once: it has a few keys with all their units, or
a few units of all keys.

Rows are those of B·H; a row's keys and values are those of its group, `row // repeat`. Strides of queries are given in
multiples of UNIT, so that the compiler knows their alignment and can read several numbers at once.
"""

from typing import no_type_check

import triton
import triton.language as tl

from regard.attention.fused.additive_kernels import INTERPRETED, SCALE, _inverse


@triton.jit
@no_type_check
def _tanh(x, FAST: tl.constexpr):
    """Tanh to 1 in 10^7; or, for inputs in half precision, one instruction good to 1 in 2,000."""
    if FAST and not INTERPRETED:
        return tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=r,r", [x], tl.float32, is_pure=True, pack=1)
    return 1.0 - 2.0 * _inverse(1.0 + tl.exp2(x * SCALE))


@triton.jit(do_not_specialize=["S", "by_batch", "by_head", "by_batch2", "by_head2", "H", "repeat"])
@no_type_check
def fits(
    Q, Q2, K, V, E, S, by_batch, by_head, by_batch2, by_head2, H, repeat,
    UNIT: tl.constexpr, A: tl.constexpr, BENT: tl.constexpr, TWO: tl.constexpr, FAST: tl.constexpr,
    BS: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """e[s] = Σ_a v[a] tanh(q[a] + k[s, a]) for BS keys of a row; if not BENT, Σ_a q[a] k[s, a].

    With TWO, q is the sum of two queries.
    """
    i = tl.program_id(1)
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    batch, head = (i // H).to(tl.int64), (i % H).to(tl.int64)
    Q += (batch * by_batch + head * by_head) * UNIT
    Q2 += (batch * by_batch2 + head * by_head2) * UNIT
    K += (i // repeat).to(tl.int64) * S * A
    V += head * A
    e = tl.zeros([BS, BA], tl.float32)
    for start in range(0, A, BA):
        a = start + tl.arange(0, BA)
        inside = (s < S)[:, None] & (a < A)[None, :]
        k = tl.load(K + s[:, None] * A + a[None, :], mask=inside, other=0.0).to(tl.float32)
        q = tl.load(Q + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
        if TWO:
            q += tl.load(Q2 + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
        if BENT:
            v = tl.load(V + a, mask=a < A, other=0.0)[None, :]
            e += v * _tanh(q + k, FAST)
        else:
            e += q * k
    tl.store(E + i.to(tl.int64) * S + s, tl.sum(e, axis=1), mask=s < S)


@triton.jit(do_not_specialize=["S", "H", "repeat"])
@no_type_check
def step_forward(
    E, MASK, X, P, C, S, H, repeat, W: tl.constexpr, SHORT: tl.constexpr, BS: tl.constexpr, BW: tl.constexpr
):  # fmt: skip
    """c[w] = Σ_s p[s] x[s, w] for BW of the W units of the values, p being the softmax over real keys; stores p too."""
    i = tl.program_id(1)
    w = tl.program_id(0) * BW + tl.arange(0, BW)
    E += i.to(tl.int64) * S
    P += i.to(tl.int64) * S
    MASK += (i // H).to(tl.int64) * S
    X += (i // repeat).to(tl.int64) * S * W
    size = BS if SHORT else S
    top = tl.full([BS], float("-inf"), tl.float32)
    for start in range(0, size, BS):
        s = start + tl.arange(0, BS)
        real = tl.load(MASK + s, mask=s < S, other=0) != 0
        top = tl.maximum(top, tl.where(real, tl.load(E + s, mask=s < S, other=0.0), float("-inf")))
    base = tl.max(top, axis=0)
    base = tl.where(base == float("-inf"), 0.0, base)
    seen = tl.zeros([BW], tl.float32)
    total = tl.zeros([BS], tl.float32)
    for start in range(0, size, BS):
        s = start + tl.arange(0, BS)
        inside = (s < S)[:, None] & (w < W)[None, :]
        x = tl.load(X + s[:, None] * W + w[None, :], mask=inside, other=0.0).to(tl.float32)
        real = tl.load(MASK + s, mask=s < S, other=0) != 0
        p = tl.where(real, tl.exp(tl.load(E + s, mask=s < S, other=0.0) - base), 0.0)
        total += p
        seen += tl.sum(p[:, None] * x, axis=0)
    whole = tl.sum(total, axis=0)
    share = 1.0 / tl.where(whole > 0.0, whole, 1.0)
    tl.store(C + i.to(tl.int64) * W + w, (seen * share).to(C.dtype.element_ty), mask=w < W)
    if tl.program_id(0) == 0:
        for start in range(0, size, BS):
            s = start + tl.arange(0, BS)
            real = tl.load(MASK + s, mask=s < S, other=0) != 0
            p = tl.where(real, tl.exp(tl.load(E + s, mask=s < S, other=0.0) - base), 0.0)
            tl.store(P + s, p * share, mask=s < S)


@triton.jit(do_not_specialize=["S", "by_batch", "by_head", "H", "repeat"])
@no_type_check
def step_backward_query(
    P, DP, Q, K, V, DE, DQ, S, by_batch, by_head, H, repeat,
    UNIT: tl.constexpr, A: tl.constexpr, BENT: tl.constexpr, FAST: tl.constexpr, SHORT: tl.constexpr,
    BS: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """dQ[a] = v[a] Σ_s dE[s] (1 - tanh²) for BA units, or Σ_s dE[s] k[s, a]; stores all dE = P (dP - Σ P dP) too."""
    i = tl.program_id(1)
    a = tl.program_id(0) * BA + tl.arange(0, BA)
    P += i.to(tl.int64) * S
    DP += i.to(tl.int64) * S
    DE += i.to(tl.int64) * S
    Q += ((i // H).to(tl.int64) * by_batch + (i % H).to(tl.int64) * by_head) * UNIT
    K += (i // repeat).to(tl.int64) * S * A
    size = BS if SHORT else S
    mean = tl.zeros([BS], tl.float32)
    for start in range(0, size, BS):
        s = start + tl.arange(0, BS)
        mean += tl.load(P + s, mask=s < S, other=0.0) * tl.load(DP + s, mask=s < S, other=0.0)
    base = tl.sum(mean, axis=0)
    q = tl.load(Q + a, mask=a < A, other=0.0).to(tl.float32)[None, :]
    slope = tl.zeros([BA], tl.float32)
    for start in range(0, size, BS):
        s = start + tl.arange(0, BS)
        inside = (s < S)[:, None] & (a < A)[None, :]
        k = tl.load(K + s[:, None] * A + a[None, :], mask=inside, other=0.0).to(tl.float32)
        d = tl.load(P + s, mask=s < S, other=0.0) * (tl.load(DP + s, mask=s < S, other=0.0) - base)
        if BENT:
            bent = _tanh(q + k, FAST)
            slope += tl.sum(d[:, None] * (1.0 - bent * bent), axis=0)
        else:
            slope += tl.sum(d[:, None] * k, axis=0)
        if tl.program_id(0) == 0:
            tl.store(DE + s, d, mask=s < S)
    if BENT:
        slope *= tl.load(V + i % H * A + a, mask=a < A, other=0.0)
    tl.store(DQ + i.to(tl.int64) * A + a, slope.to(DQ.dtype.element_ty), mask=a < A)
