"""Optimizers by name, and their state as plain named tensors."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import nn
from torch.optim import SGD, Adam, AdamW, Optimizer

from regard.config import TrainingConfig
from regard.registry import Registry
from regard.shapes import Tensor

optimizers: Registry[Callable[[Iterable[nn.Parameter], TrainingConfig], Optimizer]] = Registry(
    "optimizer", "optimizers"
)

BETA1 = 0.9

# The fused kernels are torch's own, run on CPU and CUDA alike, and take a fifth of the time of the others on a CPU.


@optimizers.register("adam")
def adam(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Kingma & Ba 2015, with the paper's constants (beta2 is a setting: Transformers like a shorter memory)."""
    return Adam(parameters, lr=config.learning_rate, betas=(BETA1, config.beta2), fused=True)


@optimizers.register("adamw")
def adamw(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Adam with decoupled weight decay (Loshchilov & Hutter 2019)."""
    betas = (BETA1, config.beta2)
    return AdamW(parameters, lr=config.learning_rate, betas=betas, weight_decay=config.weight_decay, fused=True)


@optimizers.register("sgd")
def sgd(parameters: Iterable[nn.Parameter], config: TrainingConfig) -> Optimizer:
    """Stochastic gradient descent, with Nesterov's momentum if one is set (Sutskever et al. 2013)."""
    return SGD(
        parameters,
        lr=config.learning_rate,
        momentum=config.momentum,
        nesterov=config.momentum > 0,
        weight_decay=config.weight_decay,
        fused=not config.shard,  # torch has no such kernel for tensors that are cut up
    )


def state_tensors(optimizer: Optimizer, names: Mapping[nn.Parameter, str]) -> dict[str, Tensor]:
    """Return what an optimizer remembers as `parameter/what`, by the parameters' own names."""
    return {
        f"{name}/{what}": value
        for parameter, name in names.items()
        for what, value in optimizer.state.get(parameter, {}).items()
        if isinstance(value, torch.Tensor)
    }


def load_state(optimizer: Optimizer, names: Mapping[nn.Parameter, str], tensors: Mapping[str, Tensor]) -> None:
    """Put back what `state_tensors` returned."""
    for parameter, name in names.items():
        kept = {
            key.removeprefix(f"{name}/"): value.clone() for key, value in tensors.items() if key.startswith(f"{name}/")
        }
        for what, value in kept.items():
            if value.dim() and value.shape != parameter.shape:
                raise ValueError(f"{name}/{what} has the shape {[*value.shape]}, not {[*parameter.shape]}")
        if kept:
            # As torch's own load_state_dict does for fused optimizers: everything lives beside its parameter.
            optimizer.state[parameter] = {what: value.to(parameter.device) for what, value in kept.items()}


def gradient_norm(parameters: Iterable[nn.Parameter], largest: float) -> Tensor:
    """Return the norm of the whole gradient, and scale the gradient down to `largest` where it is above (0: never)."""
    kept = list(parameters)
    norm = nn.utils.get_total_norm([parameter.grad for parameter in kept if parameter.grad is not None])
    if hasattr(norm, "full_tensor"):  # of parts that several processes have
        norm = norm.full_tensor()
    # Torch would multiply by one; a GPU would have to be waited for to know.
    small = norm.device.type == "cpu" and bool(norm + 1e-6 <= largest)
    if largest > 0 and not small:
        nn.utils.clip_grads_with_norm_(kept, largest, norm)
    return norm
