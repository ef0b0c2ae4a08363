"""Laws of dropout. Axes are distinct primes."""

import pytest
import torch

from regard.layers.dropout import Dropout

B, T, D = 3, 101, 13
BOTH = pytest.mark.parametrize("variational", [False, True])


@pytest.fixture
def ones():
    torch.manual_seed(1)
    return torch.ones(B, T, D)


@BOTH
@pytest.mark.parametrize("rate", [0.0, 0.3, 0.9])
def test_it_does_nothing_in_evaluation(ones, variational, rate):
    assert Dropout(rate, variational).eval()(ones) is ones
    assert torch.equal(Dropout(rate, variational).eval().scales(ones).expand(B, T, D), ones)


@BOTH
def test_a_rate_of_zero_does_nothing_in_training(ones, variational):
    assert Dropout(0.0, variational).train()(ones) is ones
    assert torch.equal(Dropout(0.0, variational).train().scales(ones).expand(B, T, D), ones)


@BOTH
def test_units_are_dropped_or_scaled_up_and_nothing_else(ones, variational):
    assert Dropout(0.2, variational).train()(ones).unique().tolist() == pytest.approx([0.0, 1.25])


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_it_keeps_the_mean_and_drops_at_its_rate(ones, rate):
    dropped = Dropout(rate).train()(ones)
    assert dropped.mean().item() == pytest.approx(1.0, abs=0.12)
    assert (dropped == 0).float().mean().item() == pytest.approx(rate, abs=0.03)


def test_plain_draws_at_every_step_and_variational_once_a_sentence(ones):
    plain, held = Dropout(0.5).train()(ones), Dropout(0.5, variational=True).train()(ones)
    assert not (plain == plain[:, :1]).all()
    assert (held == held[:, :1]).all()
    assert not torch.equal(held[0], held[1])


@BOTH
def test_the_scales_are_what_forward_applies(ones, variational):
    dropout = Dropout(0.4, variational).train()
    sequence = torch.randn(B, T, D)
    torch.manual_seed(7)
    dropped = dropout(sequence)
    torch.manual_seed(7)
    scales = dropout.scales(sequence)
    assert scales.shape == (B, 1 if variational else T, D)
    assert torch.equal(dropped, sequence * scales)


@BOTH
def test_a_dropped_unit_gets_no_gradient(ones, variational):
    sequence = ones.requires_grad_()
    dropped = Dropout(0.5, variational).train()(sequence)
    dropped.sum().backward()
    assert torch.equal(sequence.grad, dropped.detach())


def test_it_follows_the_precision_it_is_given(ones):
    assert Dropout(0.5).train()(ones.to(torch.bfloat16)).dtype == torch.bfloat16


def test_what_is_added_to_keeps_its_precision(ones):
    dropout, fine = Dropout(0.5).train(), ones + 1e-5
    torch.manual_seed(7)
    added = dropout(ones.to(torch.bfloat16), fine)
    torch.manual_seed(7)
    assert torch.equal(added, fine + dropout(ones))
