r"""What the cells do beside their products, forward and back by hand: a fraction of the operations that autograd makes.

`tanh x` is computed as `2 σ(2x) - 1`, which takes a CPU a sixth of the time. The cells in `cells.py` have the plain
formulas, and these are tested against them.
"""

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from regard.shapes import Float, Tensor

sigmoid_backward = torch.ops.aten.sigmoid_backward


class LSTMGates(torch.autograd.Function):
    """From the sums that enter an LSTM's gates, and its memory, to its new output and memory."""

    @staticmethod
    def forward(ctx: Any, sums: Float[Tensor, "B G"], memory: Float[Tensor, "B D"]) -> tuple[Tensor, Tensor]:
        """Take one step."""
        width = memory.shape[-1]
        twice = sums.clone()
        twice[:, 2 * width : 3 * width].mul_(2)
        gates = twice.sigmoid_()
        admit, forget, new, emit = gates.chunk(4, dim=-1)
        new.mul_(2).sub_(1)
        after = torch.mul(forget, memory).addcmul_(admit, new)
        bent = torch.mul(after, 2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(gates, memory, bent)
        return emit * bent, after

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_hidden: Tensor, to_memory: Tensor) -> tuple[Tensor, Tensor]:
        """Go back over one step."""
        gates, memory, bent = ctx.saved_tensors
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
        return slopes, kept.mul_(forget)


class GRUGates(torch.autograd.Function):
    """From both sides of a GRU's gates, and its output, to its new output."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], hidden: Float[Tensor, "B D"]
    ) -> Tensor:
        """Take one step."""
        width = hidden.shape[-1]
        both = torch.add(inputs[:, : 2 * width], recurrent[:, : 2 * width]).sigmoid_()
        reset, keep = both.chunk(2, dim=-1)
        echo = recurrent[:, 2 * width :]
        new = torch.addcmul(inputs[:, 2 * width :], reset, echo).mul_(2).sigmoid_().mul_(2).sub_(1)
        ctx.save_for_backward(both, echo, new, hidden)
        return torch.lerp(new, hidden, keep)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, to_hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Go back over one step."""
        both, echo, new, hidden = ctx.saved_tensors
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
        return to_inputs, to_recurrent, before
