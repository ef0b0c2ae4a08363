"""The loss equals torch's, sees no padding, and adds up over batches."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_run import MODEL, WORDS, batch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from regard.config import TrainingConfig
from regard.models.build import build_model
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import batch_loss, cross_entropy


@settings(deadline=None, max_examples=30)
@given(st.floats(0, 0.9), st.integers(0, 1000))
def test_smoothing_is_torchs(smoothing, seed):
    random = torch.Generator().manual_seed(seed)
    logits = torch.randn(11, 7, generator=random, dtype=torch.float32).mul(3).requires_grad_()
    targets = torch.randint(7, (11,), generator=random)
    loss = cross_entropy(logits, targets, smoothing)
    expected = functional.cross_entropy(logits, targets, label_smoothing=smoothing, reduction="sum")
    torch.testing.assert_close(loss.total, expected)
    torch.testing.assert_close(loss.nll, functional.cross_entropy(logits, targets, reduction="sum").detach())
    torch.testing.assert_close(
        torch.autograd.grad(loss.total, logits), torch.autograd.grad(expected, logits), rtol=1e-4, atol=1e-5
    )


def test_smoothing_against_the_definition():
    """q'(k) = (1 - ε) δ(k, y) + ε / W, by hand: two words, logits (0, log 3), so p = (1/4, 3/4)."""
    logits = torch.tensor([[0.0, 3.0]]).where(torch.tensor([[True, False]]), torch.tensor(3.0).log())
    loss = cross_entropy(logits, torch.tensor([1]), 0.2)
    expected = -(0.9 * torch.tensor(0.75).log() + 0.1 * torch.tensor(0.25).log())
    torch.testing.assert_close(loss.total, expected)


@pytest.fixture
def model():
    torch.manual_seed(3)
    return build_model(MODEL, WORDS, WORDS).eval()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_what_lies_under_the_padding_changes_nothing(model, smoothing):
    clean = batch(range(5))
    assert not clean.target_mask.all()
    poisoned = clean._replace(
        tokens_in=torch.where(clean.target_mask, clean.tokens_in, 17),
        tokens_out=torch.where(clean.target_mask, clean.tokens_out, 19),
    )
    assert torch.equal(batch_loss(model, clean, smoothing).total, batch_loss(model, poisoned, smoothing).total)


class Rows(TorchDispatchMode):
    """Notes how many rows every product with a matrix has, there and back."""

    def __init__(self, matrix):
        super().__init__()
        self.matrix, self.found = matrix, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if function.__name__.split(".")[0].rstrip("_") in ("mm", "addmm"):
            one, other = args[-2:]
            if other.data_ptr() == self.matrix.data_ptr():
                self.found.append(len(one))
            elif result.shape == self.matrix.shape:  # its own gradient
                self.found.append(len(other))
        return result


LOSSES = {
    "plain": lambda model, batch: batch_loss(model, batch, 0.1).total,
    "trained with": lambda model, batch: SequenceObjective(model, TrainingConfig(label_smoothing=0.1))(batch).total,
    "trained with, twice": lambda model, batch: SequenceObjective(model, TrainingConfig(r_drop=1.0))(batch).total,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_output_layer_never_sees_padding(model, name):
    """In three products: its own, and those of the gradients of what it reads and of its weights."""
    asked = batch(range(7))
    assert not asked.target_mask.all()
    with Rows(model.decoder.output.weight) as seen:
        LOSSES[name](model, asked).backward()
    assert seen.found == [int(asked.target_mask.sum()) * (2 if "twice" in name else 1)] * 3
