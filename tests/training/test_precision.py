"""What a model learns in bfloat16 is what it learns in float32, but for rounding; with any number of threads.

Each gradient may differ by what eight bits round away, in no direction of its own: a gradient that is systematically
too short, or a sum in bfloat16, would teach another model. Threads share the work in other ways, and only that.
"""

import numpy as np
import pytest
import torch

from regard.config import TrainingConfig
from regard.config_io import override
from regard.data.batching import Batch
from regard.data.special_tokens import BOS
from regard.masks import from_lengths
from regard.models.build import build_model
from regard.presets import preset
from regard.training.objective import SequenceObjective

ROWS, WORDS = 37, 211
SYSTEMS = {
    "bahdanau2014-small": ("embedding=64", "encoder.width=128", "decoder.width=128", "decoder.readout_width=64"),
    "luong2015-small": ("embedding=64", "encoder.width=128", "decoder.width=128"),
    "transformer2017-small": ("embedding=64", "encoder.width=64", "decoder.width=64", "attention.heads=2"),
}
"""Small ones whose matrices are large enough for oneDNN to pack."""


def batch() -> Batch:
    random = torch.Generator().manual_seed(5)
    read, written = (torch.randint(1, longest + 1, (ROWS,), generator=random) for longest in (13, 11))
    source_mask, target_mask = from_lengths(read), from_lengths(written)
    source, target = (torch.randint(4, WORDS, mask.shape, generator=random) for mask in (source_mask, target_mask))
    begun = torch.cat([torch.full_like(target[:, :1], BOS), target[:, :-1]], dim=1)
    parts = source * source_mask, source_mask, begun * target_mask, target * target_mask, target_mask
    return Batch(*parts, np.arange(ROWS))


def gradients(name, precision, threads):
    """Return the gradient of one batch, part by part."""
    torch.manual_seed(3)
    config = override(preset(name), [f"model.{change}" for change in ("dropout=0", *SYSTEMS[name])])
    model, given, before = build_model(config.model, WORDS, WORDS).train(), batch(), torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            made = SequenceObjective(model, TrainingConfig(label_smoothing=0.1))(given, 1.0)
        (made.total / given.count).backward()
    finally:
        torch.set_num_threads(before)
    return {name: part.grad for name, part in model.named_parameters() if part.grad is not None}


def whole(parts):
    return torch.cat([part.flatten() for part in parts.values()])


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_gradient_in_bfloat16_is_that_in_float32_but_for_rounding(name):
    exact, near = gradients(name, "float32", 1), gradients(name, "bfloat16", 1)
    assert exact.keys() == near.keys()
    right, found = whole(exact), whole(near)
    assert (found - right).norm() < 0.03 * right.norm()
    assert abs(found @ right / (right @ right) - 1) < 0.004, "longer or shorter than it should be"
    for part, gradient in exact.items():
        if gradient.norm() > 1e-4 * right.norm():  # a key's bias has none, but for rounding
            assert (near[part] - gradient).norm() < 0.1 * gradient.norm(), part


@pytest.mark.parametrize("name", SYSTEMS)
def test_threads_change_rounding_alone(name):
    one, two = (whole(gradients(name, "bfloat16", threads)) for threads in (1, 2))
    assert (two - one).norm() < 2e-3 * one.norm()
