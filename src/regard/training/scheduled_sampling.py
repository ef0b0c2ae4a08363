"""Scheduled sampling: letting the decoder read words of its own while it learns (Bengio et al. 2015).

With a ratio of 1 it reads the right words alone (teacher forcing). Below, each word it reads is the right one with that
probability, and otherwise one that the model itself has drawn.
"""

import math
from collections.abc import Callable

import torch

from regard.config import TrainingConfig
from regard.models.protocol import Encoded
from regard.models.seq2seq import Seq2Seq
from regard.registry import Registry
from regard.shapes import Int, Tensor
from regard.training.learning_rate_schedule import ScheduleStep

Fall = Callable[[float], float]
"""Maps how much of the run is over, from 0 to 1, to how much of the way is left, from 1 to 0."""

forcings: Registry[Fall] = Registry("teacher forcing schedule", "forcings")

STEEP = 10.0
"""How many units of the logistic function the inverse sigmoid spans."""
LEFT = 0.01
"""What the exponential decay leaves at the planned end, before it is stretched to end at the ratio itself."""


def forcing_ratio(moment: ScheduleStep, config: TrainingConfig) -> float:
    r"""Return the probability of reading the right word at a step (Bengio et al. 2015, section 2.4).

    .. math:: \epsilon_n = \epsilon + (1 - \epsilon)\, f\!\left(\frac{n - 1}{N - 1}\right)

    `N` is the number of steps planned, and `f` falls from 1 to 0.
    Differs from the paper: its decays go on for ever and have constants to be tuned to the run's length; these end at
    `training.teacher_forcing` with the last planned step.
    """
    if config.teacher_forcing >= 1:
        return 1.0
    over = min((moment.step - 1) / max(moment.total - 1, 1), 1.0)
    left = forcings[config.teacher_forcing_schedule](over)
    return config.teacher_forcing + (1 - config.teacher_forcing) * left


@forcings.register("constant")
def constant(over: float) -> float:
    """Have the ratio from the first step on."""
    return 0.0


@forcings.register("linear")
def linear(over: float) -> float:
    """Fall evenly."""
    return 1.0 - over


@forcings.register("exponential")
def exponential(over: float) -> float:
    """Fall fast at first, by the same factor at each step."""
    return (math.pow(LEFT, over) - LEFT) / (1 - LEFT)


@forcings.register("inverse-sigmoid")
def inverse_sigmoid(over: float) -> float:
    """Fall slowly at first and at last, fast between."""
    low, high = _logistic(-STEEP / 2), _logistic(STEEP / 2)
    return (_logistic(STEEP * (0.5 - over)) - low) / (high - low)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@torch.no_grad()
def mixed_tokens(model: Seq2Seq, encoded: Encoded, tokens: Int[Tensor, "B T"], ratio: float) -> Int[Tensor, "B T"]:
    """Replace some of the tokens that the decoder is to read by its own; the first, the start mark, stays.

    Each is the given one with probability `ratio`, by a toss of its own, and is otherwise drawn from what the model
    gives after all that it has read so far (Bengio et al. 2015, section 2.4; the paper also names the most probable
    one). All comes from torch's generator, which is seeded for each step.

    No gradient passes through a token that was drawn, so running `teach` over the result has the gradient of the steps
    that are taken here, and keeps everything that decoders do at once. Here are only steps: with T of them this takes
    longer than the parallel run of a Transformer. Dropout is drawn anew by `teach`.
    """
    state = model.decoder.start(encoded)
    read = [tokens[:, 0]]
    for t in range(1, tokens.shape[1]):
        step = model.decoder.step(read[-1], state)
        drawn = torch.multinomial(step.logits.float().softmax(dim=-1), 1)[:, 0]
        right = torch.rand(drawn.shape, device=drawn.device) < ratio
        read.append(torch.where(right, tokens[:, t], drawn))
        state = step.state
    # Weights that autocast has cast here have no gradient, and older releases of torch would use them again.
    torch.clear_autocast_cache()
    return torch.stack(read, dim=1)
