"""Triton kernels for the gates: one for a step forward, one for its backward, for any mix of input dtypes.

Everything is computed in float32. Only the inputs are saved for the backward pass: recomputing the gates is faster than
writing and reading them. Row strides are given in multiples of UNIT, so that the compiler knows their alignment and can
read several numbers at once.
"""

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def _sigmoid(x):
    return 1.0 / (1.0 + tl.exp(-x))


@triton.jit
@no_type_check
def _tanh(x):
    return 2.0 * _sigmoid(2.0 * x) - 1.0


@triton.jit
@no_type_check
def _read(X, d, inside):
    return tl.load(X + d, mask=inside, other=0.0).to(tl.float32)


@triton.jit
@no_type_check
def _read_all(X, Y, Z, by_x, by_y, by_z, b, d, inside, N: tl.constexpr, UNIT: tl.constexpr):
    """Sum of the first N of three."""
    x = _read(X + b * by_x * UNIT, d, inside)
    if N > 1:
        x += _read(Y + b * by_y * UNIT, d, inside)
    if N > 2:
        x += _read(Z + b * by_z * UNIT, d, inside)
    return x


@triton.jit
@no_type_check
def _write(X, d, x, inside):
    tl.store(X + d, x.to(X.dtype.element_ty), mask=inside)


# -- LSTM: admit, forget, new, emit -----------------------------------------------------------------------------------


@triton.jit
@no_type_check
def _lstm_gates(IN, R, d, inside, D: tl.constexpr):
    admit = _sigmoid(_read(IN, d, inside) + _read(R, d, inside))
    forget = _sigmoid(_read(IN, D + d, inside) + _read(R, D + d, inside))
    new = _tanh(_read(IN, 2 * D + d, inside) + _read(R, 2 * D + d, inside))
    emit = _sigmoid(_read(IN, 3 * D + d, inside) + _read(R, 3 * D + d, inside))
    return admit, forget, new, emit


@triton.jit(do_not_specialize=["by_i", "by_r", "by_c"])
@no_type_check
def lstm(IN, R, C, HIDDEN, MEMORY, by_i, by_r, by_c, UNIT: tl.constexpr, D: tl.constexpr, BD: tl.constexpr):
    """One step, from both sides of the sums and the memory C to the hidden state and the new memory."""
    b = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside = d < D
    admit, forget, new, emit = _lstm_gates(IN + b * by_i * UNIT, R + b * by_r * UNIT, d, inside, D)
    memory = forget * _read(C + b * by_c * UNIT, d, inside) + admit * new
    _write(HIDDEN + b * D, d, emit * _tanh(memory), inside)
    _write(MEMORY + b * D, d, memory, inside)


@triton.jit(do_not_specialize=["by_i", "by_r", "by_c", "by_x", "by_y", "by_z", "by_m"])
@no_type_check
def lstm_back(
    IN, R, C, X, Y, Z, TO_MEMORY, SUMS, BEFORE, by_i, by_r, by_c, by_x, by_y, by_z, by_m,
    UNIT: tl.constexpr, N: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Gradients of the sums and the previous memory, from N gradients of the output (X, Y, Z) and one of the memory."""
    b = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside = d < D
    admit, forget, new, emit = _lstm_gates(IN + b * by_i * UNIT, R + b * by_r * UNIT, d, inside, D)
    before = _read(C + b * by_c * UNIT, d, inside)
    bent = _tanh(forget * before + admit * new)
    to_hidden = _read_all(X, Y, Z, by_x, by_y, by_z, b, d, inside, N, UNIT)
    to_memory = _read(TO_MEMORY + b * by_m * UNIT, d, inside) + to_hidden * emit * (1.0 - bent * bent)
    SUMS += b * 4 * D
    _write(SUMS, d, to_memory * new * admit * (1.0 - admit), inside)
    _write(SUMS, D + d, to_memory * before * forget * (1.0 - forget), inside)
    _write(SUMS, 2 * D + d, to_memory * admit * (1.0 - new * new), inside)
    _write(SUMS, 3 * D + d, to_hidden * bent * emit * (1.0 - emit), inside)
    _write(BEFORE + b * D, d, to_memory * forget, inside)


# -- GRU: reset, keep, new --------------------------------------------------------------------------------------------


@triton.jit
@no_type_check
def _gru_gates(IN, R, d, inside, D: tl.constexpr):
    reset = _sigmoid(_read(IN, d, inside) + _read(R, d, inside))
    keep = _sigmoid(_read(IN, D + d, inside) + _read(R, D + d, inside))
    echo = _read(R, 2 * D + d, inside)
    return reset, keep, echo, _tanh(_read(IN, 2 * D + d, inside) + reset * echo)


@triton.jit(do_not_specialize=["by_i", "by_r", "by_h"])
@no_type_check
def gru(IN, R, H, HIDDEN, by_i, by_r, by_h, UNIT: tl.constexpr, D: tl.constexpr, BD: tl.constexpr):
    """One step, from both sides of the gates and the previous hidden state H to the new one."""
    b = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside = d < D
    _, keep, _, new = _gru_gates(IN + b * by_i * UNIT, R + b * by_r * UNIT, d, inside, D)
    _write(HIDDEN + b * D, d, new + keep * (_read(H + b * by_h * UNIT, d, inside) - new), inside)


@triton.jit(do_not_specialize=["by_i", "by_r", "by_h", "by_x", "by_y", "by_z"])
@no_type_check
def gru_back(
    IN, R, H, X, Y, Z, INPUTS, RECURRENT, BEFORE, by_i, by_r, by_h, by_x, by_y, by_z,
    UNIT: tl.constexpr, N: tl.constexpr, D: tl.constexpr, BD: tl.constexpr,
):  # fmt: skip
    """Gradients of both sides of the gates and of the previous hidden state, from N of the new one (X, Y, Z)."""
    b = tl.program_id(1).to(tl.int64)
    d = tl.program_id(0) * BD + tl.arange(0, BD)
    inside = d < D
    reset, keep, echo, new = _gru_gates(IN + b * by_i * UNIT, R + b * by_r * UNIT, d, inside, D)
    slope = _read_all(X, Y, Z, by_x, by_y, by_z, b, d, inside, N, UNIT)
    to_new = slope * (1.0 - keep) * (1.0 - new * new)
    to_keep = slope * (_read(H + b * by_h * UNIT, d, inside) - new) * keep * (1.0 - keep)
    to_reset = to_new * echo * reset * (1.0 - reset)
    INPUTS += b * 3 * D
    RECURRENT += b * 3 * D
    _write(INPUTS, d, to_reset, inside)
    _write(RECURRENT, d, to_reset, inside)
    _write(INPUTS, D + d, to_keep, inside)
    _write(RECURRENT, D + d, to_keep, inside)
    _write(INPUTS, 2 * D + d, to_new, inside)
    _write(RECURRENT, 2 * D + d, to_new * reset, inside)
    _write(BEFORE + b * D, d, slope * keep, inside)
