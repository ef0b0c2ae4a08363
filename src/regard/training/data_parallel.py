"""Steps that several processes share: each runs its rows of a batch, and the gradients are added up over all of them.

`DistributedDataParallel` adds them up while the backward pass still runs. It averages over the processes, where a step
needs the sum of all rows divided by the tokens of the whole batch: so each process divides by the tokens over the
number of processes. Batches that are accumulated into one step are reduced once, with the last of them.
"""

import contextlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from regard.distributed import World
from regard.shapes import Tensor
from regard.task import BatchLoss, Objective
from regard.training.cuda_graphs import Autocast, Steps

_SYNC_BUFFERS = (
    "forward_sync_buffers"
    if "forward_sync_buffers" in inspect.signature(nn.parallel.DistributedDataParallel).parameters
    else "broadcast_buffers"  # its name before torch 2.13
)
BUCKET = 25 * 2**20
"""Bytes of gradients that are reduced at a time: what DistributedDataParallel takes, too."""


class ObjectiveModule(nn.Module):
    """The objective as a module: torch's engines need to see a forward pass begin and end."""

    def __init__(self, model: nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model = model
        self._objective = objective

    def forward(self, batch: Any, ratio: float) -> BatchLoss:
        """Return the loss of a batch."""
        return self._objective(batch, ratio)


class DDPSteps(Steps):
    """Gradients that are reduced while the backward pass runs."""

    def __init__(
        self, model: nn.Module, objective: Objective, autocast: Autocast, device: torch.device, world: World, first: Any
    ) -> None:
        """`first` is a batch, the same in all processes, by which the order of gradients is found."""
        super().__init__(objective, autocast, device)
        self._size = world.size
        unused = _has_unused(model, Steps(objective, autocast, device), first)
        constant: dict[str, Any] = {_SYNC_BUFFERS: False}
        self.parallel = nn.parallel.DistributedDataParallel(
            ObjectiveModule(model, objective),
            gradient_as_bucket_view=True,
            find_unused_parameters=unused,
            **constant,
        )
        # The buckets are laid out anew after the first backward pass, by the order of its gradients. Sums of three or
        # more processes depend on the layout: found before the first step, it is the same after a resume.
        self(first, 1)
        model.zero_grad(set_to_none=True)

    def __call__(self, batch: Any, tokens: int | float, ratio: float = 1.0) -> BatchLoss:
        """Add the gradient of this process's part of a batch, as one of so many tokens of the whole step."""
        with self._autocast():
            made: BatchLoss = self.parallel(batch.to(self._device), ratio)
        (made.total / (tokens / self._size)).backward()  # type: ignore[no-untyped-call]
        return made._replace(total=made.loss)  # lets go of autograd's graph

    def all_of(self, batches: Sequence[Any], tokens: Sequence[int | float], ratio: float = 1.0) -> list[BatchLoss]:
        """Leave the gradient of all batches of a step, reduced with the last."""
        made = []
        for number, (batch, count) in enumerate(zip(batches, tokens, strict=True), start=1):
            with contextlib.nullcontext() if number == len(batches) else self.parallel.no_sync():
                made.append(self(batch, count, ratio))
        return made


class AllReducedSteps(Steps):
    """Gradients that are reduced when a step's backward passes are over, as those of recorded steps have to be.

    A CUDA graph is launched as one, so there is nothing within it that a reduction could run beside.
    """

    def __init__(self, steps: Steps, model: nn.Module, world: World) -> None:
        self._steps, self._world = steps, world
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def all_of(self, batches: Sequence[Any], tokens: Sequence[int | float], ratio: float = 1.0) -> list[BatchLoss]:
        """Leave the gradient of all batches of a step, and reduce it."""
        made = self._steps.all_of(batches, tokens, ratio)
        for some in self._buckets():
            whole = self._world.sum_(torch.cat([gradient.flatten() for gradient in some]))
            parts = torch.split(whole, [gradient.numel() for gradient in some])
            torch._foreach_copy_(some, [part.view_as(old) for part, old in zip(parts, some, strict=True)])
        return made

    def _buckets(self) -> list[list[Tensor]]:
        buckets: list[list[Tensor]] = [[]]
        held = 0
        for parameter in self._parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if held and held + parameter.grad.nbytes > BUCKET:
                buckets.append([])
                held = 0
            buckets[-1].append(parameter.grad)
            held += parameter.grad.nbytes
        return buckets


def _has_unused(model: nn.Module, steps: Steps, first: Any) -> bool:
    """Find out whether some parameters get no gradient: looking for them at every step takes time."""
    steps(first, 1)
    unused = any(parameter.grad is None for parameter in model.parameters() if parameter.requires_grad)
    model.zero_grad(set_to_none=True)
    return unused
