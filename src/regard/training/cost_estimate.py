"""What a planned training takes on this machine: parameters, memory and time, by a few steps on made-up text."""

import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch

from regard.config import Config
from regard.data.batching import Batch
from regard.data.special_tokens import BOS, MARKS
from regard.decoding.model_loading import find_device
from regard.shapes import Tensor
from regard.task import Objective, build, task_of
from regard.training.cuda_graphs import RecordedSteps, Steps
from regard.training.memory_estimate import KEPT, available, classes_of, vocabulary_of
from regard.training.plan_rules import Plan, tokens_of
from regard.training.setting_checks import fastest
from regard.training.trainer import records_steps

TIMED = 3
"""Steps that are timed, after one that is not."""


@dataclass(frozen=True)
class Estimate:
    """What a training takes."""

    device: str
    parameters: int
    vocabulary: int
    """Entries, at most."""
    memory: int
    """Bytes: weights, gradients, the optimizer's averages, and what a batch of usual length keeps for its gradient."""
    available: int
    """Bytes that this machine has."""
    seconds: float
    """Of all steps; validations take about a tenth more."""

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def estimate(plan: Plan) -> Estimate:
    """Build the model, time a few steps of it, and throw it away. Randomness elsewhere is not touched."""
    device = find_device(plan.config.training.device)
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        return _estimate(plan, device)


def _estimate(plan: Plan, device: torch.device) -> Estimate:
    config, size = plan.config, vocabulary_of(plan.config.tokenizer, plan.survey)
    model = build(config.model, size, classes_of(config.model, plan.survey) or size).to(device)
    model.train()
    objective, batch = task_of(config.model).rehearsal(model, _batch(plan, size), config)
    steps = _steps(objective, config, device)
    memory = _measured(lambda: steps(batch, batch.count), device)
    began, times = time.perf_counter(), TIMED
    for _ in range(times):
        steps(batch, batch.count)
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    each = (time.perf_counter() - began) / times
    parameters = sum(weight.numel() for weight in model.parameters())
    return Estimate(
        device=str(device) if device.type == "cpu" else torch.cuda.get_device_name(device),
        parameters=parameters,
        vocabulary=size,
        memory=KEPT * parameters + memory,
        available=available(device),
        seconds=each * planned_steps(plan) * config.training.accumulate,
    )


def planned_steps(plan: Plan) -> int:
    """Return how many steps a plan makes."""
    settings = plan.config.training
    of_epochs = settings.epochs * max(1, round(plan.tokens / (settings.batch_tokens * settings.accumulate)))
    return min(settings.steps, of_epochs) if settings.steps else of_epochs


def _steps(objective: Objective, config: Config, device: torch.device) -> Steps:
    precision = fastest(device) if config.training.precision == "auto" else config.training.precision

    def autocast() -> AbstractContextManager[Any]:
        return torch.autocast(device.type, dtype=torch.bfloat16) if precision == "bfloat16" else nullcontext()

    if records_steps(config, device):
        return RecordedSteps(objective, autocast, device, lambda text: None)
    return Steps(objective, autocast, device)


def _batch(plan: Plan, size: int) -> Batch:
    """Make a batch as it will usually be."""
    settings, kind = plan.config.training, plan.config.tokenizer.kind
    most = plan.config.data.max_length
    lengths = [min(most, max(1, round(tokens_of(side, kind)))) + 1 for side in (plan.survey.source, plan.survey.target)]
    rows = max(1, settings.batch_tokens // max(lengths))
    generator = torch.Generator().manual_seed(1)
    low = min(len(MARKS), size - 1)
    source, target = (torch.randint(low, size, (rows, length), generator=generator) for length in lengths)
    real = [torch.ones(rows, length, dtype=torch.bool) for length in lengths]
    tokens_in = torch.cat((torch.full((rows, 1), BOS), target[:, :-1]), dim=1)
    return Batch(
        source,
        real[0],
        tokens_in,
        target,
        real[1],
        np.arange(rows),
        written=torch.arange(target.numel()),
        lengths=torch.full((rows,), lengths[0]),
    )


def _measured(run: Any, device: torch.device) -> int:
    """Run something, and return the bytes that it kept for its gradient."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        run()
        return int(torch.cuda.max_memory_allocated(device) - before)
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        run()
    return sum(kept.values())
