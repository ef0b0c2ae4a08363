"""Weights, gradients and the optimizer's state cut up over several processes (`training.shard`): FSDP2, `fully_shard`.

Each process keeps a part of every tensor. The layers of a Transformer are put together when they run, one at a time,
and so is the rest of a model for the length of a step. What is saved is whole, so that any number of processes can go
on from it. A validation has the whole model in every process.
"""

import contextlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from regard.models.transformer_layer import DecoderLayer, EncoderLayer
from regard.shapes import Tensor
from regard.task import BatchLoss, Objective
from regard.training.cuda_graphs import Autocast, Steps
from regard.training.data_parallel import ObjectiveModule


class Sharded:
    """A model that is cut up, and the tensors that belong to it."""

    def __init__(self, model: nn.Module, objective: Objective, device: torch.device, size: int) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

        # Nothing is added in place to what a layer returns, so that torch has nothing to warn of.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module .* returned a view tensor")
        self._mesh = init_device_mesh(device.type, (size,))
        self.loss = ObjectiveModule(model, objective)
        for layer in model.modules():
            if isinstance(layer, EncoderLayer | DecoderLayer):
                fully_shard(layer, mesh=self._mesh)
                if isinstance(layer, DecoderLayer):
                    register_fsdp_forward_method(layer, "start")
        # What gradients do not teach is no part of it: it is small, and read outside of a step.
        kept = {parameter for parameter in model.parameters() if not parameter.requires_grad}
        fully_shard(self.loss, mesh=self._mesh, ignored_params=kept)
        for parameter in kept:
            parameter.data = parameter.data.to(device)
        for buffers in (module._buffers for module in model.modules()):
            buffers.update({name: None if one is None else one.to(device) for name, one in buffers.items()})
        self._modules: list[Any] = [module for module in self.loss.modules() if hasattr(module, "unshard")]

    def cut(self, tensors: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Cut up whole tensors, which all processes have, as those of the same names are."""
        return {name: cut_as(tensor, like[name]) for name, tensor in tensors.items()}

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Let every process have the whole model for a while: then each may run it as often as it likes."""
        for module in self._modules:
            module.set_reshard_after_forward(False, recurse=False)
            module.unshard()
        try:
            yield
        finally:
            for module in self._modules:
                module.set_reshard_after_forward(module is not self.loss, recurse=False)
                module.reshard()


class ShardedSteps(Steps):
    """Gradients of a model that is cut up: each process gets its part of their sum."""

    def __init__(
        self, sharded: Sharded, objective: Objective, autocast: Autocast, device: torch.device, size: int
    ) -> None:
        super().__init__(objective, autocast, device)
        self._loss, self._size = sharded.loss, size

    def __call__(self, batch: Any, tokens: int | float, ratio: float = 1.0) -> BatchLoss:
        """Add the gradient of this process's part of a batch, as one of so many tokens of the whole step."""
        with self._autocast():
            made: BatchLoss = self._loss(batch.to(self._device), ratio)
        (made.total / (tokens / self._size)).backward()  # type: ignore[no-untyped-call]
        return made._replace(total=made.loss)

    def all_of(self, batches: Sequence[Any], tokens: Sequence[int | float], ratio: float = 1.0) -> list[BatchLoss]:
        """Leave the gradient of all batches of a step, reduced with the last."""
        made = []
        for number, (batch, count) in enumerate(zip(batches, tokens, strict=True), start=1):
            self._loss.set_requires_gradient_sync(number == len(batches))  # type: ignore[operator]
            made.append(self(batch, count, ratio))
        return made


def cut_as(tensor: Tensor, like: Tensor) -> Tensor:
    """Cut up a whole tensor as another one is; one that is whole stays so, and so does a number."""
    from torch.distributed.tensor import DTensor, distribute_tensor

    if not isinstance(like, DTensor) or tensor.dim() == 0:
        return tensor.to(like.device)
    here = tensor.to(like.device)
    return distribute_tensor(here, like.device_mesh, like.placements, src_data_rank=None)


def put_together(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return whole tensors on the CPU. All processes have to call it."""
    return {name: whole_of(tensor).cpu() for name, tensor in tensors.items()}


def whole_of(tensor: Tensor) -> Tensor:
    """Return a tensor put together from its parts, or as it is. All processes have to call it."""
    from torch.distributed.tensor import DTensor

    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
