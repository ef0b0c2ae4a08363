"""Operations with deferred gradients: operands shared by all steps of a loop get theirs after all steps' backward."""

from abc import ABC, abstractmethod
from typing import Any

import torch

from regard.shapes import Tensor


class DeferredGradOp(ABC):
    """An operation whose operands are shared by all steps, and what it keeps for their gradients."""

    def __init__(self, *tensors: Tensor) -> None:
        self.learned = False
        """Whether the shared operands require a gradient."""
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        """For each step: its input, and the gradient of its output."""

    @abstractmethod
    def run(self, *inputs: Tensor) -> tuple[Tensor | tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Run a step; return its output, and what its backward needs."""

    @abstractmethod
    def back(self, step: int, saved: tuple[Tensor, ...], *slopes: Any) -> tuple[Tensor, ...]:
        """Backward of a step: return the gradients of its inputs, of optional ones too.

        If a step has several outputs, all but one may have no gradient.
        """

    @abstractmethod
    def collect(self) -> tuple[Tensor | None, ...]:
        """Return the gradients of the shared operands, after the backward of all steps."""

    def _keep(self, step: int, entered: Tensor, slope: Tensor) -> None:
        if self.learned:
            self.kept[step] = entered, slope

    def _kept(self, dim: int) -> tuple[Tensor, Tensor]:
        entered, slopes = zip(*self.kept.values(), strict=True)
        return torch.cat(entered, dim=dim), torch.cat(slopes, dim=dim)


class Shared:
    """A handle on shared operands, alive as long as the loop.

    The operation must not refer to the ticket: that would be a reference cycle that nothing frees.
    """

    def __init__(self, kind: type[DeferredGradOp], tensors: tuple[Tensor, ...]) -> None:
        self._tensors = tensors
        self._waiting = kind(*(tensor.detach() for tensor in tensors))
        self._waiting.learned = any(tensor.requires_grad for tensor in tensors)
        self._ticket: Tensor = _Ticket.apply(self._waiting, *tensors)  # type: ignore[no-untyped-call]
        self._steps = 0

    def apply(self, *inputs: Tensor) -> Tensor:
        """Run a step of an operation with one output."""
        found: Tensor = self.apply_all(*inputs)  # type: ignore[assignment]
        return found

    def apply_all(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Run a step of an operation with several outputs."""
        self._steps += 1
        found: tuple[Tensor, ...] = _Step.apply(self._waiting, self._steps, self._ticket, *inputs)  # type: ignore[no-untyped-call]
        return found


class _Ticket(torch.autograd.Function):
    """A node before all steps in the autograd graph, so that its backward runs after all of theirs."""

    @staticmethod
    def forward(ctx: Any, waiting: DeferredGradOp, *tensors: Tensor) -> Tensor:
        ctx.waiting = waiting
        ctx.kinds = [tensor.dtype for tensor in tensors]
        ctx.set_materialize_grads(False)
        return tensors[0].new_empty(0)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, _: None) -> tuple[Tensor | None, ...]:
        slopes = ctx.waiting.collect()
        ctx.waiting.kept = {}
        return None, *(None if slope is None else slope.to(kind) for slope, kind in zip(slopes, ctx.kinds, strict=True))


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, waiting: DeferredGradOp, step: int, ticket: Tensor, *inputs: Tensor) -> Any:
        found, saved = waiting.run(*inputs)
        ctx.save_for_backward(*saved)
        ctx.waiting, ctx.step = waiting, step
        ctx.kinds = [part.dtype for part in inputs]
        ctx.set_materialize_grads(isinstance(found, Tensor))
        return found

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, ...]:
        if all(slope is None for slope in slopes):
            return (None,) * (3 + len(ctx.kinds))
        found = ctx.waiting.back(ctx.step, ctx.saved_tensors, *slopes)
        return None, None, None, *(part.to(kind) for part, kind in zip(found, ctx.kinds, strict=False))
