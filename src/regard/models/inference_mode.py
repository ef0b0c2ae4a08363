"""A model that is used, and not trained."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference_mode(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients for a while: a model in training can be used too, and goes on as it was."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
