"""Averages of a model's weights over time: often better than the last ones, and always calmer.

An average sees every step and every checkpoint, and says which weights to validate and to keep. What it remembers is
saved with the checkpoint, each part as a file that never changes once written.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import nn

from regard.config import TrainingConfig
from regard.models.store import weights_of
from regard.registry import Registry
from regard.shapes import Tensor

Weights = dict[str, Tensor]

PREFIX = "average-"
"""How the names of an average's files begin."""

averages: Registry[Callable[[TrainingConfig], "Average"]] = Registry("weight averaging", "averages")


def set_weights(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy weights into a model, in place."""
    for name, tensor in weights_of(model).items():
        tensor.copy_(weights[name])  # of a detached view, so that no gradient is recorded


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

    def mean(self, weights: Weights) -> Weights:
        """Return the average, given the weights of now."""
        return weights

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
        return {name: self._mean(name) if weights[name].is_floating_point() else weights[name] for name in weights}

    def _mean(self, name: str) -> Tensor:
        tensors = [kept[name] for _, kept in self._kept]
        total = torch.zeros_like(tensors[0], dtype=torch.float64)
        for tensor in tensors:
            total += tensor
        return (total / len(tensors)).to(tensors[0].dtype)

    def files(self) -> dict[str, Weights]:
        """Return one file for each checkpoint kept."""
        return {_file_of(step): kept for step, kept in self._kept}

    def load(self, files: Mapping[str, Weights]) -> None:
        """Take the copies back, oldest first."""
        self._kept.clear()
        for name in sorted(files):
            self._kept.append((_step_of(name), dict(files[name])))


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
        for name, mean in self._mean.items():
            if mean.is_floating_point():
                mean.lerp_(weights[name], kept)
            else:
                mean.copy_(weights[name])

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


def _file_of(step: int) -> str:
    return f"{PREFIX}{step:08d}.safetensors"


def _step_of(name: str) -> int:
    return int(name.removeprefix(PREFIX).removesuffix(".safetensors"))
