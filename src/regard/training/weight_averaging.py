"""Averages of a model's weights over time: often better than the last ones, and always calmer.

An average sees every step and every checkpoint, and says which weights to validate and to keep. What it remembers is
saved with the checkpoint, each part as a file that never changes once written.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from regard.config import TrainingConfig
from regard.models.model_folder import weights_of
from regard.registry import Registry
from regard.shapes import Tensor
from regard.training.run_state import Score

Weights = dict[str, Tensor]

PREFIX = "average-"
"""How the names of an average's files begin."""

averages: Registry[Callable[[TrainingConfig], "Average"]] = Registry("weight averaging", "averages")


def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, in place."""
    own = weights_of(model)
    for name, tensor in weights.items():
        own[name].copy_(tensor)  # of a detached view, so that no gradient is recorded


@averages.register("none")
class Average:
    """No average: the weights as they are. The base of those that are some mean of the weights a model has had."""

    def __init__(self, config: TrainingConfig) -> None:
        """Take the settings that an average needs."""

    def start(self, weights: Weights) -> None:
        """See the weights before the first step."""

    def step(self, step: int, weights: Weights) -> None:
        """See the weights after a step."""

    def checkpoint(self, step: int, weights: Weights) -> None:
        """See the weights at a scheduled checkpoint (not at one made because the run was stopped)."""

    def validated(self, history: Sequence[Score], weights: Weights) -> None:
        """See the weights at a validation, the last one of all so far."""

    def mean(self, weights: Weights) -> Weights:
        """Return the average, given the weights of now."""
        return weights

    def is_new(self, step: int, best: int) -> bool:
        """Say whether the weights to use are new at a step, given that of the best validation."""
        return step == best

    def files(self) -> dict[str, Weights]:
        """Return what must be saved, by file name; a file of a given name has one content in a run's life."""
        return {}

    def load(self, files: Mapping[str, Weights]) -> None:
        """Take back what `files` returned."""

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Let a model have the averaged weights for a while."""
        now = weights_of(model)
        mean = self.mean(now)
        if mean is now:
            yield
            return
        kept = {name: tensor.clone() for name, tensor in now.items()}
        set_weights(model, mean)
        try:
            yield
        finally:
            set_weights(model, kept)


@averages.register("last")
class LastCheckpoints(Average):
    """The mean of the last N checkpoints; before the first one, the weights as they are."""

    def __init__(self, config: TrainingConfig) -> None:
        self._kept: deque[tuple[int, Weights]] = deque(maxlen=max(config.average_last, 1))

    def checkpoint(self, step: int, weights: Weights) -> None:
        """Keep a copy, and forget the oldest where there are more than N; of one step, keep it once."""
        if self._kept and self._kept[-1][0] == step:
            return
        self._kept.append((step, {name: tensor.clone() for name, tensor in weights.items()}))

    def mean(self, weights: Weights) -> Weights:
        """Return the mean, summed in float64 so that the order does not matter."""
        if not self._kept:
            return weights
        return mean_of(kept for _, kept in self._kept)

    def files(self) -> dict[str, Weights]:
        """Return one file for each checkpoint kept."""
        return {_file_of(step): kept for step, kept in self._kept}

    def load(self, files: Mapping[str, Weights]) -> None:
        """Take the copies back, oldest first."""
        self._kept.clear()
        for name in sorted(files):
            self._kept.append((_step_of(name), dict(files[name])))


@averages.register("best")
class BestCheckpoints(Average):
    """The mean of the N checkpoints with the best validations so far; before the first one, the weights as they are.

    What is validated, and ranked, is each checkpoint by itself. Among equals the earlier ones stay.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self._count = max(config.average_last, 1)
        self._kept: dict[int, Weights] = {}

    def validated(self, history: Sequence[Score], weights: Weights) -> None:
        """Keep a copy if it is among the N best, and forget the one it displaces: that can never come back."""
        best = {one.step for one in sorted(history, key=lambda one: one.rank, reverse=True)[: self._count]}
        now = history[-1].step
        if now in best and now not in self._kept:
            self._kept[now] = {name: tensor.clone() for name, tensor in weights.items()}
        self._kept = {step: kept for step, kept in sorted(self._kept.items()) if step in best}

    def mean(self, weights: Weights) -> Weights:
        """Return the mean, summed in float64 so that the order does not matter."""
        return mean_of(self._kept.values()) if self._kept else weights

    def is_new(self, step: int, best: int) -> bool:
        """Say so whenever a checkpoint has come among the N best."""
        return step in self._kept

    def files(self) -> dict[str, Weights]:
        """Return one file for each checkpoint kept."""
        return {_file_of(step): kept for step, kept in self._kept.items()}

    def load(self, files: Mapping[str, Weights]) -> None:
        """Take the copies back."""
        self._kept = {_step_of(name): dict(files[name]) for name in sorted(files)}

    @contextmanager
    def applied(self, model: nn.Module) -> Iterator[None]:
        """Leave a model as it is: the average is made of what the validation says of it."""
        yield


@averages.register("ema")
class Exponential(Average):
    r"""The exponential moving average, updated after every step n.

    .. math:: m_n = d_n m_{n-1} + (1 - d_n) w_n, \qquad d_n = \min(d, \tfrac{1 + n}{10 + n})

    With `d` alone the initial, random weights would weigh on the average for thousands of steps; the second term lets
    it forget them at once.
    """

    def __init__(self, config: TrainingConfig) -> None:
        self._decay = config.ema_decay
        self._step = 0
        self._mean: Weights = {}

    def start(self, weights: Weights) -> None:
        """Begin with the initial weights."""
        self._mean = {name: tensor.clone() for name, tensor in weights.items()}

    def step(self, step: int, weights: Weights) -> None:
        """Move towards the weights of now."""
        self._step = step
        kept = 1 - min(self._decay, (1 + step) / (10 + step))
        real = [name for name, mean in self._mean.items() if mean.is_floating_point()]
        # All at once: one kernel on a GPU, not one for each.
        torch._foreach_lerp_([self._mean[name] for name in real], [weights[name] for name in real], kept)
        for name in self._mean.keys() - set(real):
            self._mean[name].copy_(weights[name])

    def mean(self, weights: Weights) -> Weights:
        """Return the average of all steps so far."""
        return self._mean

    def files(self) -> dict[str, Weights]:
        """Return the average, in a file named by its step."""
        return {_file_of(self._step): self._mean}

    def load(self, files: Mapping[str, Weights]) -> None:
        """Take the average back."""
        for name, weights in files.items():
            self._step, self._mean = _step_of(name), dict(weights)


def mean_of(many: Iterable[Weights]) -> Weights:
    """Return the mean, summed in float64 so that the order does not matter; what is no real number is the last one."""
    every = list(many)
    return {name: _mean([weights[name] for weights in every]) for name in every[-1]}


def _mean(tensors: list[Tensor]) -> Tensor:
    if not tensors[-1].is_floating_point():
        return tensors[-1]
    total = torch.zeros_like(tensors[0], dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(tensors[0].dtype)


def _file_of(step: int) -> str:
    return f"{PREFIX}{step:08d}.safetensors"


def _step_of(name: str) -> int:
    return int(name.removeprefix(PREFIX).removesuffix(".safetensors"))
