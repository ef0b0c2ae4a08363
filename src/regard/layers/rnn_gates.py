r"""The element-wise part of recurrent cells, forward and backward by hand: far fewer operations than with autograd.

`tanh x` is computed as `2 σ(2x) - 1`, which takes a sixth of the time on a CPU. On a GPU each direction is one kernel.
`rnn_cells.py` has the plain formulas, against which these are tested.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.batched_weight_gradients import HALF, current, in_decoder_loop
from regard.devices import runs_kernels
from regard.masks import exact
from regard.shapes import Float, Tensor

sigmoid_backward = torch.ops.aten.sigmoid_backward
WIDE = 256
"""Units per program of a kernel, computed by TWO warps of threads."""
TWO = 2


def by_hand(*parts: Tensor) -> bool:
    """Whether to run a step of a loop by the functions here; half precision, computed in float32, on a CPU only."""
    return in_decoder_loop() and all(part.dtype not in HALF or part.device.type == "cpu" for part in parts)


def by_kernels(*parts: Tensor) -> bool:
    """Whether to run a step of a loop as one kernel."""
    kinds = (torch.float32, *HALF)
    return in_decoder_loop() and runs_kernels(parts[0].device) and all(part.dtype in kinds for part in parts)


class LSTMGates(torch.autograd.Function):
    """From the sums that enter an LSTM's gates, and its memory, to its hidden state and new memory."""

    @staticmethod
    def forward(ctx: Any, sums: Float[Tensor, "B G"], memory: Float[Tensor, "B D"]) -> tuple[Tensor, Tensor]:
        """Run one step: the hidden state has the dtype of the sums, the memory at least float32."""
        width, ctx.kinds = memory.shape[-1], (sums.dtype, memory.dtype)
        memory = exact(memory)
        twice = sums.to(memory.dtype, copy=True)
        twice[:, 2 * width : 3 * width].mul_(2)
        gates = twice.sigmoid_()
        admit, forget, new, emit = gates.chunk(4, dim=-1)
        new.mul_(2).sub_(1)
        after = torch.mul(forget, memory).addcmul_(admit, new)
        bent = torch.mul(after, 2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(gates, memory, bent)
        return (emit * bent).to(sums.dtype), after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_hidden: Tensor, to_memory: Tensor) -> tuple[Tensor, Tensor]:
        """Backward of one step."""
        gates, memory, bent = ctx.saved_tensors
        to_hidden = to_hidden.to(gates.dtype)
        admit, forget, new, emit = gates.chunk(4, dim=-1)
        slopes = torch.empty_like(gates)
        to_admit, to_forget, to_new, to_emit = slopes.chunk(4, dim=-1)
        torch.mul(to_hidden, bent, out=to_emit)
        kept = torch.mul(to_hidden, emit)
        # The slope of tanh is 1 - tanh².
        kept.addcmul_(kept * bent, bent, value=-1).add_(to_memory)
        torch.mul(kept, new, out=to_admit)
        torch.mul(kept, memory, out=to_forget)
        torch.mul(kept, admit, out=to_new)
        to_new.addcmul_(to_new * new, new, value=-1)
        # The slope of σ is σ (1 - σ).
        for gate, slope in ((gates[:, : 2 * memory.shape[-1]], slopes[:, : 2 * memory.shape[-1]]), (emit, to_emit)):
            slope.copy_(sigmoid_backward(slope, gate))
        return slopes.to(ctx.kinds[0]), kept.mul_(forget).to(ctx.kinds[1])


class GRUGates(torch.autograd.Function):
    """From both sides of a GRU's gates, and its hidden state, to the new hidden state."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], hidden: Float[Tensor, "B D"]
    ) -> Tensor:
        """Run one step; the hidden state keeps its dtype."""
        width, ctx.kinds = hidden.shape[-1], (inputs.dtype, recurrent.dtype, hidden.dtype)
        inputs, recurrent, hidden = exact(inputs), exact(recurrent), exact(hidden)
        both = torch.add(inputs[:, : 2 * width], recurrent[:, : 2 * width]).sigmoid_()
        reset, keep = both.chunk(2, dim=-1)
        echo = recurrent[:, 2 * width :]
        new = torch.addcmul(inputs[:, 2 * width :], reset, echo).mul_(2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(both, echo, new, hidden)
        return torch.lerp(new, hidden, keep).to(ctx.kinds[2])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Backward of one step."""
        both, echo, new, hidden = ctx.saved_tensors
        to_hidden = to_hidden.to(both.dtype)
        reset, keep = both.chunk(2, dim=-1)
        width = hidden.shape[-1]
        to_inputs = torch.empty(hidden.shape[0], 3 * width, dtype=hidden.dtype, device=hidden.device)
        to_reset, to_keep, to_new = to_inputs.chunk(3, dim=-1)
        before = torch.mul(to_hidden, keep)
        torch.sub(to_hidden, before, out=to_new)
        to_new.addcmul_(to_new * new, new, value=-1)
        torch.mul(to_hidden, hidden - new, out=to_keep)
        torch.mul(to_new, echo, out=to_reset)
        gates = to_inputs[:, : 2 * width]
        gates.copy_(sigmoid_backward(gates, both))
        to_recurrent = to_inputs.clone()
        to_recurrent[:, 2 * width :].mul_(reset)
        slopes = to_inputs, to_recurrent, before
        return tuple(slope.to(kind) for slope, kind in zip(slopes, ctx.kinds, strict=True))  # type: ignore[return-value]


def lstm_step(
    inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], memory: Float[Tensor, "B D"]
) -> tuple[Float[Tensor, "B D"], Float[Tensor, "B D"]]:
    """Run an LSTM step as one kernel; return the hidden state, in the dtype of the sums, and the memory, in its own."""
    loop = current()
    assert loop is not None
    *names, after = _LSTMKernel.apply(inputs, recurrent, memory)  # type: ignore[no-untyped-call]
    return loop.rename(*names), after


def gru_step(
    inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], hidden: Float[Tensor, "B D"]
) -> Float[Tensor, "B D"]:
    """Run a GRU step as one kernel; return the hidden state, in its own dtype."""
    loop = current()
    assert loop is not None
    return loop.rename(*_GRUKernel.apply(inputs, recurrent, loop.take(hidden)))  # type: ignore[no-untyped-call]


class _LSTMKernel(torch.autograd.Function):
    """From both sides of an LSTM's sums, and its memory, to three aliases of its hidden state, and its new memory."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, memory: Tensor) -> tuple[Tensor, ...]:
        from regard.layers import rnn_gate_kernels

        inputs, recurrent, memory = map(_in_rows, (inputs, recurrent, memory))
        hidden, after = _like(memory, recurrent.dtype), _like(memory)
        ctx.save_for_backward(inputs, recurrent, memory)
        ctx.set_materialize_grads(False)
        with _there(memory):
            rnn_gate_kernels.lstm[_grid(memory)](
                inputs, recurrent, memory, hidden, after, *_strides(inputs, recurrent, memory),
                D=memory.shape[1], BD=WIDE, num_warps=TWO,
            )  # fmt: skip
        return hidden, hidden.data, hidden.data, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        from regard.layers import rnn_gate_kernels

        inputs, recurrent, memory = ctx.saved_tensors
        if all(slope is None for slope in slopes):
            return None, None, None
        to_hidden, count = _three(slopes[:3], recurrent, memory)
        to_memory = torch.zeros_like(memory) if slopes[3] is None else _in_rows(slopes[3])
        sums, before = _like(recurrent), _like(memory)
        with _there(memory):
            rnn_gate_kernels.lstm_back[_grid(memory)](
                inputs, recurrent, memory, *to_hidden, to_memory, sums, before,
                *_strides(inputs, recurrent, memory, *to_hidden, to_memory),
                count, D=memory.shape[1], BD=WIDE, num_warps=TWO,
            )  # fmt: skip
        return sums.to(inputs.dtype), sums, before


class _GRUKernel(torch.autograd.Function):
    """From both sides of a GRU's gates, and its hidden state, to three aliases of the new hidden state."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, recurrent: Tensor, hidden: Tensor) -> tuple[Tensor, ...]:
        from regard.layers import rnn_gate_kernels

        inputs, recurrent, hidden = map(_in_rows, (inputs, recurrent, hidden))
        after = _like(hidden)
        ctx.save_for_backward(inputs, recurrent, hidden)
        ctx.set_materialize_grads(False)
        with _there(hidden):
            rnn_gate_kernels.gru[_grid(hidden)](
                inputs, recurrent, hidden, after, *_strides(inputs, recurrent, hidden),
                D=hidden.shape[1], BD=WIDE, num_warps=TWO,
            )  # fmt: skip
        return after, after.data, after.data

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        from regard.layers import rnn_gate_kernels

        inputs, recurrent, hidden = ctx.saved_tensors
        if all(slope is None for slope in slopes):
            return None, None, None
        to_hidden, count = _three(slopes, hidden, hidden)
        to_inputs, to_recurrent, before = map(_like, (inputs, recurrent, hidden))
        with _there(hidden):
            rnn_gate_kernels.gru_back[_grid(hidden)](
                inputs, recurrent, hidden, *to_hidden, to_inputs, to_recurrent, before,
                *_strides(inputs, recurrent, hidden, *to_hidden),
                count, D=hidden.shape[1], BD=WIDE, num_warps=TWO,
            )  # fmt: skip
        return to_inputs, to_recurrent, before


def _three(slopes: tuple[Tensor | None, ...], kind: Tensor, state: Float[Tensor, "B D"]) -> tuple[list[Tensor], int]:
    """Return the gradients that are not None, padded to three, and how many there are."""
    there = [_in_rows(slope) for slope in slopes if slope is not None]
    there = there or [torch.zeros_like(state, dtype=kind.dtype)]
    return (there + there[:1] * 2)[:3], len(there)


def _like(matrix: Float[Tensor, "B D"], kind: torch.dtype | None = None) -> Float[Tensor, "B D"]:
    return torch.empty(matrix.shape, dtype=kind or matrix.dtype, device=matrix.device)


def _in_rows(matrix: Float[Tensor, "B D"]) -> Float[Tensor, "B D"]:
    """Return it with contiguous rows, as it mostly is already; rows may lie apart."""
    return matrix if matrix.stride(1) == 1 else matrix.contiguous()


def _strides(*matrices: Float[Tensor, "B _"]) -> tuple[int, ...]:
    """Row strides in multiples of a unit, and that unit."""
    strides = [matrix.stride(0) for matrix in matrices]
    unit = 8 if all(stride % 8 == 0 for stride in strides) else 1
    return *(stride // unit for stride in strides), unit


def _grid(state: Float[Tensor, "B D"]) -> tuple[int, int]:
    return -(-state.shape[1] // WIDE), state.shape[0]


def _there(tensor: Tensor) -> AbstractContextManager[Any]:
    """Make the tensor's device the current one, on which kernels run."""
    return torch.cuda.device(tensor.device) if tensor.is_cuda else nullcontext()
