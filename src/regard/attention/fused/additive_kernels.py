"""The Triton kernels of additive scores and of their gradients. No tensor of B×T×S×A is ever written.

tanh need not be computed for each of the B·T·S·A units. With `x = exp(2q) exp(2k)` it is

    tanh(q + k) = 1 - 2 r,    1 - tanh(q + k)² = 4 (r - r²),    r = 1 / (1 + x),

where the exponentials are taken once for each element of queries and keys. Scores need Σ v r alone. There the weights
go into the exponentials of the keys, and with m = max |v| a unit is one multiply-add, and a quotient:

    Σ v tanh(q + k) = m (Σ 1/c - 2 Σ 1/u),    u = c (1 + x) = exp(2q) · c exp(2k) + c,    c = m / v, so that |c| >= 1.

Adding one more quotient to a sum takes two instructions, 1/u + n/d = (n u + d) / (d u), and a single reciprocal. Four
share one as long as the product of their u is finite (FOURS: up to |q| + |k| = 10 where all weights are equal, and more
if few are large). Else two do (SAFE: up to 35, less for small weights), as they do in gradients, where each r is
needed: 1/u = w / (u w), 1/w = u / (u w). A tile that may exceed even that is computed from `q + k` itself, at twice to
four times the cost, and is right for any finite input.

Register use decides the speed: in a tile of N rows and as many columns as there are threads (or a multiple), each
thread holds whole columns. Whatever belongs to a row is then the same for all threads, and is read four at a time.
"""

import os
from typing import no_type_check

import triton
import triton.language as tl

SAFE = tl.constexpr(101.0)
"""Bits that one unit may have. Then |u| <= 2^102: a product above 2^126 has the inverse 0, and both 1/u are < 2^-24."""
FOURS = tl.constexpr(121.0)
"""Bits that four units may have. Their product is at most 2^125, and n, a sum of four products of three, 2^127."""
LEAST = tl.constexpr(2.0**-32)
"""A weight smaller than this part of the largest counts as zero: a thousand of them add up to at most 2^-22."""
LIGHT = tl.constexpr(1024.0)
"""The c of a unit without weight, where x is taken as 0: four stay far below FOURS; a thousand 1/c add up to 1."""
SCALE = tl.constexpr(2.885390043258667)
REST = tl.constexpr(3.8519196270e-08)
"""2 / ln 2, in two parts."""
LN2 = tl.constexpr(0.6931471805599453)
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
@no_type_check
def _inverse(x):
    """1 / x, to 1 unit in the last place: one instruction instead of the eight of a division."""
    if INTERPRETED:
        return 1.0 / x
    return tl.inline_asm_elementwise("rcp.approx.ftz.f32 $0, $1;", "=r,r", [x], tl.float32, is_pure=True, pack=1)


@triton.jit
@no_type_check
def _exp_twice(z):
    """exp(2 z) as a power of two, corrected for the rounding of the exponent."""
    high = z * SCALE
    low = tl.fma(z, SCALE, -high) + z * REST
    return tl.exp2(high) * (1.0 + low * LN2)


@triton.jit
@no_type_check
def _exact(q, k):
    """1 / (1 + exp(2 (q + k))) for any finite q and k."""
    return _inverse(1.0 + tl.exp2((q + k) * SCALE))


@triton.jit
@no_type_check
def _four(x, N: tl.constexpr):
    """The four columns of an N×4 tile."""
    even, odd = tl.split(tl.reshape(x, [N, 2, 2]))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


# -- exponentials, once for each element ------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["N", "H", "first"])
@no_type_check
def exponentials(
    Z, V, EXP, QUADS, C, TOP, N, TALL, H, first,
    A: tl.constexpr, NATURAL: tl.constexpr, QUAD: tl.constexpr, BN: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """exp(2 z) for every element of n×N×A; rows after the last, up to TALL, get the value for z = 0.

    NATURAL stores them in the order of the input. QUAD multiplies them by c, and stores them as n×A/4×N×4, so that
    neighbouring rows are neighbours in memory; C gets, for each of the n, every c, Σ 1/c and m. TOP gets three numbers
    for each row, as 3×n×N, all in bits: the maximum over units of exp(2 |z|), and of |c| exp(2 |z|); the maximum over
    groups of four of the product of |c| max(1, exp(2 z)).
    """
    i = tl.program_id(1).to(tl.int64)
    rows = tl.program_id(0) * BN + tl.arange(0, BN)
    V += (first + i) % H * A
    C += i * (A + 2)
    if QUAD:
        m = _highest(V, A, BA)
    total = 0.0
    top = tl.zeros([BN], tl.float32)
    unit, four = top, top
    for start in range(0, A, BA):
        a = start + tl.arange(0, BA)
        inside, written = (rows < N)[:, None] & (a < A)[None, :], (rows < TALL)[:, None] & (a < A)[None, :]
        z = tl.load(Z + i * N * A + rows[:, None] * A + a[None, :], mask=inside, other=0.0).to(tl.float32)
        exp, more = _exp_twice(z), tl.zeros([BA], tl.float32)
        top = tl.maximum(top, tl.max(tl.abs(z) * SCALE, axis=1))
        if NATURAL:
            tl.store(EXP + i * TALL * A + rows[:, None] * A + a[None, :], exp, mask=written)
        if QUAD:
            v = tl.load(V + a, mask=a < A, other=0.0)
            light = tl.abs(v) <= m * LEAST
            c = tl.where(light, LIGHT, tl.div_rn(m, v))
            # A light unit contributes 2/c - 2/u, which is zero.
            total += tl.sum(tl.where(a < A, tl.div_rn(tl.where(light, 2.0, 1.0), c), 0.0), axis=0)
            at = (a // 4)[None, :] * (TALL * 4) + rows[:, None] * 4 + (a % 4)[None, :]
            tl.store(QUADS + i * TALL * A + at, tl.where(light[None, :], 0.0, c[None, :] * exp), mask=written)
            tl.store(C + a, c, mask=(a < A) & (tl.program_id(0) == 0))
            z, more = tl.where(light[None, :], 0.0, z), tl.where(a < A, tl.log2(tl.abs(c)), 0.0)
        unit = tl.maximum(unit, tl.max(tl.abs(z) * SCALE + more[None, :], axis=1))
        high = tl.reshape(tl.maximum(z, 0.0) * SCALE + more[None, :], [BN, BA // 4, 4])
        four = tl.maximum(four, tl.max(tl.sum(high, axis=2), axis=1))
    if QUAD:
        tl.store(C + A, total, mask=tl.program_id(0) == 0)
        tl.store(C + A + 1, m, mask=tl.program_id(0) == 0)
    TOP += i * N + rows
    each = tl.num_programs(1) * N
    tl.store(TOP, top, mask=rows < N)
    tl.store(TOP + each, unit, mask=rows < N)
    tl.store(TOP + 2 * each, four, mask=rows < N)


@triton.jit
@no_type_check
def _highest(X, N, BN: tl.constexpr):
    """The largest magnitude among N numbers."""
    top = tl.zeros([BN], tl.float32)
    for start in range(0, N, BN):
        at = start + tl.arange(0, BN)
        top = tl.maximum(top, tl.abs(tl.load(X + at, mask=at < N, other=0.0)))
    return tl.max(top, axis=0)


# -- scores -----------------------------------------------------------------------------------------------------------


@triton.jit(do_not_specialize=["T", "S", "H", "first", "position"])
@no_type_check
def scores(
    Q, K, V, EXP_Q, QUADS, C, TOP_Q, TOP_K, MASK, E, T, S, TALL, WIDE, STEP, ROW, H, first, position,
    A: tl.constexpr, MASKED: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr,
):  # fmt: skip
    """e[t, s] = Σ_a v[a] tanh(q[t, a] + k[s, a]) for a tile of BT×BS; skips tiles with no allowed pair."""
    i = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * BT + tl.arange(0, BT)
    columns = tl.program_id(0) * BS + tl.arange(0, BS)
    t, s = tl.minimum(rows, T - 1), tl.minimum(columns, S - 1)
    if tl.program_id(0) * BS >= position + (tl.program_id(1) + 1) * BT:
        return
    if MASKED:
        if tl.max(tl.load(MASK + (first + i) // H * S + s).to(tl.int32), axis=0) == 0:
            return
    EXP_Q += i * TALL * A
    QUADS += i * WIDE * A
    C += i * (A + 2)
    if _most(TOP_Q, TOP_K, 1, i, t, s, T, S) > SAFE:
        e = _scores_exactly(Q + i * T * A, K + i * S * A, V + (first + i) % H * A, t, s, A, BT, BS)
    elif _most(TOP_Q, TOP_K, 2, i, t, s, T, S) > FOURS:
        e = _scores_by_pairs(EXP_Q, QUADS, C, rows, columns, WIDE, A, BT, BS)
    else:
        e = _scores_by_fours(EXP_Q, QUADS, C, rows, columns, WIDE, A, BT, BS)
    inside = (rows < T)[:, None] & (columns < S)[None, :]
    E += i * STEP + rows.to(tl.int64)[:, None] * ROW
    tl.store(E + columns[None, :], e.to(E.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _most(TOP_Q, TOP_K, which: tl.constexpr, i, t, s, T, S):
    """Upper bound, in bits, for any query and key of a tile together."""
    i += tl.num_programs(2) * which
    return tl.max(tl.load(TOP_Q + i * T + t), axis=0) + tl.max(tl.load(TOP_K + i * S + s), axis=0)


@triton.jit
@no_type_check
def _scaled(EXP_Q, QUADS, C, a, t, s, WIDE, A: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """The u of four units."""
    four = tl.arange(0, 4)
    q0, q1, q2, q3 = _four(tl.load(EXP_Q + t[:, None] * A + (a + four)[None, :]), BT)
    k0, k1, k2, k3 = _four(tl.load(QUADS + a * WIDE + s[:, None] * 4 + four[None, :]), BS)
    u0 = q0[:, None] * k0[None, :] + tl.load(C + a)
    u1 = q1[:, None] * k1[None, :] + tl.load(C + a + 1)
    u2 = q2[:, None] * k2[None, :] + tl.load(C + a + 2)
    u3 = q3[:, None] * k3[None, :] + tl.load(C + a + 3)
    return u0, u1, u2, u3


@triton.jit
@no_type_check
def _scores_by_fours(EXP_Q, QUADS, C, t, s, WIDE, A: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """The sum above; four units take 4 FFMA (u), 6 for the quotient, a reciprocal and an FFMA: 3 per unit."""
    weighed = tl.zeros([BT, BS], tl.float32)
    for a in range(0, A, 4):
        u0, u1, u2, u3 = _scaled(EXP_Q, QUADS, C, a, t, s, WIDE, A, BT, BS)
        over, under = u0 + u1, u0 * u1
        over, under = over * u2 + under, under * u2
        over, under = over * u3 + under, under * u3
        weighed += over * _inverse(under)
    return tl.load(C + A + 1) * (tl.load(C + A) - 2.0 * weighed)


@triton.jit
@no_type_check
def _scores_by_pairs(EXP_Q, QUADS, C, t, s, WIDE, A: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """The same by pairs: 3 instructions a unit too, but twice as many reciprocals, which have a low throughput."""
    weighed = tl.zeros([BT, BS], tl.float32)
    for a in range(0, A, 4):
        u0, u1, u2, u3 = _scaled(EXP_Q, QUADS, C, a, t, s, WIDE, A, BT, BS)
        weighed += (u0 + u1) * _inverse(u0 * u1)
        weighed += (u2 + u3) * _inverse(u2 * u3)
    return tl.load(C + A + 1) * (tl.load(C + A) - 2.0 * weighed)


@triton.jit
@no_type_check
def _scores_exactly(Q, K, V, t, s, A: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr):
    """Σ v tanh(q + k), unit by unit."""
    e = tl.zeros([BT, BS], tl.float32)
    for a in range(A):
        q = tl.load(Q + t * A + a).to(tl.float32)
        k = tl.load(K + s * A + a).to(tl.float32)
        e += tl.load(V + a) * (1.0 - 2.0 * _exact(q[:, None], k[None, :]))
    return e


@triton.jit(do_not_specialize=["T", "S", "H", "first"])
@no_type_check
def scores_of_few(Q, K, V, E, T, S, H, first, A: tl.constexpr, BS: tl.constexpr, BA: tl.constexpr):
    """The same for one query and BS keys, read once and in order: with few queries, reading takes most of the time."""
    i = tl.program_id(2).to(tl.int64)
    t = tl.program_id(1)
    s = tl.program_id(0) * BS + tl.arange(0, BS)
    e = tl.zeros([BS, BA], tl.float32)
    for start in range(0, A, BA):
        a = start + tl.arange(0, BA)
        q = tl.load(Q + (i * T + t) * A + a, mask=a < A, other=0.0).to(tl.float32)
        v = tl.load(V + (first + i) % H * A + a, mask=a < A, other=0.0)
        inside = (s < S)[:, None] & (a < A)[None, :]
        k = tl.load(K + i * S * A + s[:, None] * A + a[None, :], mask=inside, other=0.0).to(tl.float32)
        e += v[None, :] * (1.0 - 2.0 * _exact(q[None, :], k))
    tl.store(E + (i * T + t) * S + s, tl.sum(e, axis=1).to(E.dtype.element_ty), mask=s < S)


# -- softmax ----------------------------------------------------------------------------------------------------------


@triton.jit
@no_type_check
def _allowed(MASK, s, S, last):
    """Whether keys are real, and not after `last`."""
    return (tl.load(MASK + s, mask=s < S, other=0) != 0) & (s <= last)


@triton.jit(do_not_specialize=["T", "S", "H", "first", "position"])
@no_type_check
def norms(E, MASK, NORMS, T, S, STEP, ROW, H, first, position, BS: tl.constexpr):
    """Write two numbers per row, from which its weights are exp(e - top) share: the largest score, and 1 over the sum.

    Both are 0 for a row with no allowed key. One log-sum-exp instead would lose the sum where scores are large.
    """
    i = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0).to(tl.int64)
    E += i * STEP + t * ROW
    MASK += (first + i) // H * S
    top, total = float("-inf"), 0.0
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        real = _allowed(MASK, s, S, position + t)
        e = tl.where(real, tl.load(E + s, mask=s < S, other=0.0), float("-inf"))
        higher = tl.maximum(top, tl.max(e, axis=0))
        base = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(top - base) + tl.sum(tl.exp(e - base), axis=0)
        top = higher
    NORMS += (i * T + t) * 2
    tl.store(NORMS, tl.where(total > 0.0, top, 0.0))
    tl.store(NORMS + 1, tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0))


@triton.jit(do_not_specialize=["T", "S", "H", "first", "position"])
@no_type_check
def contexts(
    E, MASK, NORMS, X, C, T, S, STEP, ROW, H, first, position,
    W: tl.constexpr, PARTS: tl.constexpr, BT: tl.constexpr, BS: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """c[t, w] = share[t] Σ_s exp(e[t, s] - top[t]) x[s, w] for a tile of BT×BW; weights are never written."""
    i = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * BT + tl.arange(0, BT)
    columns = tl.program_id(0) * BW + tl.arange(0, BW)
    t = tl.minimum(rows, T - 1).to(tl.int64)
    E += i * STEP
    X += i * S * W
    MASK += (first + i) // H * S
    NORMS += (i * T + t) * 2
    top = tl.load(NORMS)[:, None]
    found = tl.zeros([BT, BW], tl.float32)
    for start in range(0, tl.minimum(S, position + (tl.program_id(1) + 1) * BT), BS):
        s = start + tl.arange(0, BS)
        real = _allowed(MASK, s, S, S)[None, :] & (s[None, :] <= position + t[:, None])
        e = tl.load(E + t[:, None] * ROW + s[None, :], mask=(s < S)[None, :], other=0.0)
        p = tl.where(real, tl.exp(e - top), 0.0)
        x = tl.load(X + s[:, None] * W + columns[None, :], mask=(s < S)[:, None] & (columns < W)[None, :], other=0.0)
        found = _dot(p, x, found, x.dtype) if PARTS == 1 else _product(p, x, found, PARTS)
    found *= tl.load(NORMS + 1)[:, None]
    inside = (rows < T)[:, None] & (columns < W)[None, :]
    tl.store(C + (i * T + rows[:, None]) * W + columns[None, :], found.to(C.dtype.element_ty), mask=inside)


@triton.jit
@no_type_check
def _product(p, x, found, PARTS: tl.constexpr):
    """Add p x to `found` by bfloat16 products: three bfloat16 numbers, 8 bits each, make one float32.

    The error is below 2^-13 of each product with two parts, below 2^-21 with three.
    """
    p0, p = _upper(p)
    x0, x = _upper(x)
    p1, p = _upper(p)
    x1, x = _upper(x)
    if PARTS == 3:
        found = _dot(p0, x, _dot(p1, x1, _dot(p, x0, found, tl.bfloat16), tl.bfloat16), tl.bfloat16)
    return _dot(p0, x0, _dot(p0, x1, _dot(p1, x0, found, tl.bfloat16), tl.bfloat16), tl.bfloat16)


@triton.jit
@no_type_check
def _upper(x):
    """Split a float32 number into its first 8 bits and the rest."""
    upper = (x.to(tl.int32, bitcast=True) & -65536).to(tl.float32, bitcast=True)
    return upper, x - upper


@triton.jit
@no_type_check
def _dot(a, b, found, kind: tl.constexpr):
    """A product in the given dtype, added to `found`."""
    if INTERPRETED:  # the interpreter has no bfloat16
        return tl.dot(a.to(tl.float32), b.to(tl.float32), found, input_precision="ieee")
    return tl.dot(a.to(kind), b.to(kind), found)


@triton.jit(do_not_specialize=["T", "S", "H", "first", "position"])
@no_type_check
def softmax_back(E, DP, MASK, NORMS, T, S, STEP, ROW, H, first, position, BS: tl.constexpr):
    """Overwrite the scores with dE = P (dP - Σ P dP), zero up to the end of the row, and dP with P."""
    i = tl.program_id(1).to(tl.int64)
    t = tl.program_id(0).to(tl.int64)
    E += i * STEP + t * ROW
    DP += (i * T + t) * S
    MASK += (first + i) // H * S
    NORMS += (i * T + t) * 2
    top, share = tl.load(NORMS), tl.load(NORMS + 1)
    mean = 0.0
    for start in range(0, S, BS):
        s = start + tl.arange(0, BS)
        real = _allowed(MASK, s, S, position + t)
        p = tl.where(real, share * tl.exp(tl.load(E + s, mask=s < S, other=0.0) - top), 0.0)
        mean += tl.sum(tl.where(real, p * tl.load(DP + s, mask=s < S, other=0.0).to(tl.float32), 0.0), axis=0)
    for start in range(0, ROW, BS):
        s = start + tl.arange(0, BS)
        real = _allowed(MASK, s, S, position + t)
        p = tl.where(real, share * tl.exp(tl.load(E + s, mask=s < S, other=0.0) - top), 0.0)
        back = tl.load(DP + s, mask=s < S, other=0.0).to(tl.float32)
        tl.store(E + s, tl.where(real, p * (back - mean), 0.0), mask=s < ROW)
        tl.store(DP + s, p.to(DP.dtype.element_ty), mask=s < S)


# -- gradients --------------------------------------------------------------------------------------------------------


@triton.jit
@no_type_check
def _anywhere(x):
    """Return the same number, hiding from the compiler that it is a multiple of anything.

    Otherwise the compiler would give each thread several neighbours, to load them at once, and not whole columns.
    """
    if INTERPRETED:
        return x
    return tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.int32, is_pure=True, pack=1)


@triton.jit
@no_type_check
def _slopes(e, f0, f1):
    """`r` of a tile with two keys or queries, and r - r², a quarter of the slope of tanh; e and f are exponentials."""
    u0 = e * f0[None, :] + 1.0
    u1 = e * f1[None, :] + 1.0
    both = _inverse(u0 * u1)
    r0, r1 = both * u1, both * u0
    return r0, r0 - r0 * r0, r1, r1 - r1 * r1


@triton.jit(do_not_specialize=["T", "S", "H", "first", "position"])
@no_type_check
def grad_keys(
    Q, K, V, EXP_Q, EXP_K, TOP_Q, TOP_K, DE, DQ, DK, DR, T, S, TALL, WIDE, STEP, ROW, H, first, position,
    A: tl.constexpr, EXACT: tl.constexpr, QUERIES: tl.constexpr, BS: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """Add 4 v[a] Σ_t dE (r - r²) to dK[s, a] for a tile of BS×BA, and Σ_s Σ_t dE r, from which dv is computed, to DR.

    With QUERIES it adds to dQ too, by atomic additions: their order varies, so the last bits do too.
    """
    i = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * BS + tl.arange(0, BS)
    units = _anywhere(tl.program_id(0) * BA) + tl.arange(0, BA)
    s, there = tl.minimum(rows, S - 1), (units < A)[None, :]
    DE += i * STEP
    DQ += i * T * A
    v = 4.0 * tl.load(V + (first + i) % H * A + units, mask=units < A, other=0.0)
    # Queries before this one may not attend to these keys.
    early = tl.minimum(tl.maximum(tl.program_id(1) * BS - position, 0), T)
    top = float("inf")
    if not EXACT:
        top = _highest(TOP_Q + i * T, T, 128) + tl.max(tl.load(TOP_K + i * S + s), axis=0)
    if top <= SAFE:
        ek = tl.load(EXP_K + i * WIDE * A + rows[:, None] * A + units[None, :], mask=there, other=0.0)
        slope, once = _over_queries(ek, v, EXP_Q + i * TALL * A, DE, DQ, rows, units, early, T, ROW, A, QUERIES, BS, BA)
    else:
        k = tl.load(K + i * S * A + s[:, None] * A + units[None, :], mask=there, other=0.0).to(tl.float32)
        slope, once = _over_queries_exactly(k, v, Q + i * T * A, DE, DQ, rows, units, early, T, ROW, A, QUERIES, BS, BA)
    inside = (rows < S)[:, None] & there
    DK += i * S * A + rows[:, None] * A + units[None, :]
    tl.store(DK, tl.load(DK, mask=inside, other=0.0) + v[None, :] * slope, mask=inside)
    DR += (i * tl.num_programs(1) + tl.program_id(1)) * A + units
    tl.store(DR, tl.load(DR, mask=units < A, other=0.0) + tl.sum(once, axis=0), mask=units < A)


@triton.jit
@no_type_check
def _over_queries(
    ek, v, EXP_Q, DE, DQ, s, a, early, T, ROW,
    A: tl.constexpr, QUERIES: tl.constexpr, BS: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """Σ_t dE (r - r²) and Σ_t dE r; two units take 2 FFMA (u), 3 FMUL and a reciprocal (r), 6 FFMA: 6 each.

    If T is odd the tables have one more row, where dE is zero. Each tile starts at a different query, so that the tiles
    do not all add to the same gradients at once.
    """
    slope = tl.zeros([BS, BA], tl.float32)
    once = tl.zeros([BS, BA], tl.float32)
    early = early // 2 * 2
    late = (T + 1) // 2 * 2
    start = early + (late - early) // tl.num_programs(1) * tl.program_id(1) // 2 * 2
    for step in range(start, start + late - early, 2):
        t = tl.where(step < late, step, step - late + early)
        d0 = tl.load(DE + t * ROW + s)[:, None]
        d1 = tl.load(DE + (t + 1) * ROW + s)[:, None]
        q0 = tl.load(EXP_Q + t * A + a, mask=a < A, other=0.0)
        q1 = tl.load(EXP_Q + (t + 1) * A + a, mask=a < A, other=0.0)
        r0, g0, r1, g1 = _slopes(ek, q0, q1)
        slope += d0 * g0
        slope += d1 * g1
        once += d0 * r0
        once += d1 * r1
        if QUERIES:
            tl.atomic_add(DQ + t * A + a, v * tl.sum(d0 * g0, axis=0), mask=a < A, sem="relaxed")
            tl.atomic_add(DQ + (t + 1) * A + a, v * tl.sum(d1 * g1, axis=0), mask=(a < A) & (t + 1 < T), sem="relaxed")
    return slope, once


@triton.jit
@no_type_check
def _over_queries_exactly(
    k, v, Q, DE, DQ, s, a, early, T, ROW,
    A: tl.constexpr, QUERIES: tl.constexpr, BS: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    slope = tl.zeros([BS, BA], tl.float32)
    once = tl.zeros([BS, BA], tl.float32)
    for t in range(early, T):
        r = _exact(tl.load(Q + t * A + a, mask=a < A, other=0.0).to(tl.float32)[None, :], k)
        d = tl.load(DE + t * ROW + s)[:, None]
        slope += d * (r - r * r)
        once += d * r
        if QUERIES:
            tl.atomic_add(DQ + t * A + a, v * tl.sum(d * (r - r * r), axis=0), mask=a < A, sem="relaxed")
    return slope, once


@triton.jit(do_not_specialize=["T", "S", "H", "first"])
@no_type_check
def grad_queries(
    Q, K, V, EXP_Q, EXP_K, TOP_Q, TOP_K, DE, DQ, T, S, TALL, WIDE, STEP, ROW, H, first,
    A: tl.constexpr, EXACT: tl.constexpr, BT: tl.constexpr, BA: tl.constexpr,
):  # fmt: skip
    """dQ[t, a] = 4 v[a] Σ_s dE (r - r²) for a tile of BT×BA; deterministic."""
    i = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(1) * BT + tl.arange(0, BT)
    units = _anywhere(tl.program_id(0) * BA) + tl.arange(0, BA)
    t, there = tl.minimum(rows, T - 1), (units < A)[None, :]
    DE += i * STEP
    top = float("inf")
    if not EXACT:
        top = tl.max(tl.load(TOP_Q + i * T + t), axis=0) + _highest(TOP_K + i * S, S, 128)
    if top <= SAFE:
        eq = tl.load(EXP_Q + i * TALL * A + rows[:, None] * A + units[None, :], mask=there, other=0.0)
        slope = _over_keys(eq, EXP_K + i * WIDE * A, DE, rows, units, S, ROW, A, BT, BA)
    else:
        q = tl.load(Q + i * T * A + t[:, None] * A + units[None, :], mask=there, other=0.0).to(tl.float32)
        slope = _over_keys_exactly(q, K + i * S * A, DE, t, units, S, ROW, A, BT, BA)
    v = 4.0 * tl.load(V + (first + i) % H * A + units, mask=units < A, other=0.0)
    DQ += i * T * A + rows[:, None] * A + units[None, :]
    tl.store(DQ, v[None, :] * slope, mask=(rows < T)[:, None] & there)


@triton.jit
@no_type_check
def _over_keys(eq, EXP_K, DE, t, a, S, ROW, A: tl.constexpr, BT: tl.constexpr, BA: tl.constexpr):
    """Σ_s dE (r - r²): 5 instructions a unit. The tables have up to three more rows than S, where dE is zero."""
    slope = tl.zeros([BT, BA], tl.float32)
    four = tl.arange(0, 4)
    for s in range(0, S, 4):
        d0, d1, d2, d3 = _four(tl.load(DE + t[:, None] * ROW + (s + four)[None, :]), BT)
        k0 = tl.load(EXP_K + s * A + a, mask=a < A, other=0.0)
        k1 = tl.load(EXP_K + (s + 1) * A + a, mask=a < A, other=0.0)
        _, g0, _, g1 = _slopes(eq, k0, k1)
        slope += d0[:, None] * g0
        slope += d1[:, None] * g1
        k2 = tl.load(EXP_K + (s + 2) * A + a, mask=a < A, other=0.0)
        k3 = tl.load(EXP_K + (s + 3) * A + a, mask=a < A, other=0.0)
        _, g2, _, g3 = _slopes(eq, k2, k3)
        slope += d2[:, None] * g2
        slope += d3[:, None] * g3
    return slope


@triton.jit
@no_type_check
def _over_keys_exactly(q, K, DE, t, a, S, ROW, A: tl.constexpr, BT: tl.constexpr, BA: tl.constexpr):
    slope = tl.zeros([BT, BA], tl.float32)
    for s in range(S):
        r = _exact(q, tl.load(K + s * A + a, mask=a < A, other=0.0).to(tl.float32)[None, :])
        slope += tl.load(DE + t * ROW + s)[:, None] * (r - r * r)
    return slope
