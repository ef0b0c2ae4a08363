"""Run a model in evaluation mode, without gradients."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def inference_mode(model: nn.Module) -> Iterator[None]:
    """Switch off dropout and gradients within the context, then restore the training mode."""
    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        model.train(training)
