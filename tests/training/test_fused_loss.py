"""Loss and gradients made without keeping logits are those of the plain versions."""

import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from regard.training import fused_loss
from regard.training.auxiliary_losses import r_drop_divergence
from regard.training.fused_loss import LossOptions, output_loss, plain_rows
from regard.training.plain_loss import cross_entropy

WANTED = [LossOptions(0.0, 0.0), LossOptions(0.1, 0.0), LossOptions(0.0, 3.0), LossOptions(0.2, 5.0)]


def given(kind=torch.float32, device="cpu", count=14, width=7, size=23):
    torch.manual_seed(4)
    output = nn.Linear(width, size, device=device, dtype=kind)
    nn.init.normal_(output.weight)
    features = torch.randn(count, width, device=device, dtype=kind).requires_grad_()
    targets = torch.randint(size, (count // 2,), device=device).repeat(2)
    return output, features, targets


def plain(output, features, targets, wanted):
    """Let autograd do it, from the definitions."""
    logits = output(features)
    loss = cross_entropy(logits, targets, wanted.smoothing)
    if wanted.r_drop == 0:
        return loss.total
    return (loss.total + wanted.r_drop * r_drop_divergence(*logits.chunk(2))) / 2


@pytest.mark.parametrize("chunk", [1, 60, 100, 10**6])
@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_it_is_the_plain_loss(monkeypatch, wanted, chunk):
    monkeypatch.setitem(fused_loss.CHUNK, "cpu", chunk)
    output, features, targets = given()
    expected = plain(output, features, targets, wanted)
    loss = output_loss(output, features, targets, wanted)
    torch.testing.assert_close(loss.total, expected)
    places = (features, output.weight, output.bias)
    for ours, right in zip(
        torch.autograd.grad(loss.total * 0.3, places), torch.autograd.grad(expected * 0.3, places), strict=True
    ):
        torch.testing.assert_close(ours, right, rtol=1e-4, atol=1e-5)
    logits = output(features)
    torch.testing.assert_close(loss.nll, nn.functional.cross_entropy(logits, targets, reduction="none").detach())
    parts = loss.smoothed + wanted.r_drop * loss.r_drop * 0.5
    torch.testing.assert_close(parts, expected.detach())


def test_under_autocast_products_are_in_half_precision():
    output, features, targets = given()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = output_loss(output, features, targets, LossOptions(0.1, 0.0))
        expected = plain(output, features, targets, LossOptions(0.1, 0.0))
    assert loss.total.dtype == torch.float32
    torch.testing.assert_close(loss.total, expected, rtol=1e-3, atol=1e-3)
    ours, right = (torch.autograd.grad(one, features)[0] for one in (loss.total, expected))
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, right, rtol=0.02, atol=0.05)


@pytest.mark.parametrize("wanted", WANTED, ids=str)
def test_a_target_that_is_none_costs_nothing(wanted):
    output, features, targets = given()
    real = torch.ones(len(targets), dtype=torch.bool)
    real[[2, 9]] = False  # of both passes
    expected = output_loss(output, features[real], targets[real], wanted)
    loss = output_loss(output, features, targets.masked_fill(~real, -1), wanted)
    torch.testing.assert_close(loss.total, expected.total)
    torch.testing.assert_close(loss.smoothed, expected.smoothed)
    torch.testing.assert_close(loss.nll[real], expected.nll)
    assert (loss.nll[~real] == 0).all()
    places = (features, output.weight, output.bias)
    for ours, right in zip(*(torch.autograd.grad(one.total, places) for one in (loss, expected)), strict=True):
        torch.testing.assert_close(ours, right)


def test_no_tokens_cost_nothing():
    output, features, targets = given()
    loss = output_loss(output, features[:0], targets[:0], LossOptions(0.1, 0.0))
    loss.total.backward()
    assert loss.total.item() == 0
    assert output.weight.grad.abs().sum() == 0


KERNEL = """
import torch
from regard.training import fused_loss, loss_kernels
from regard.training.fused_loss import LossOptions
torch.manual_seed(1)
for kind, close in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
    for width in (23, 5000):
        for wanted in (LossOptions(0.0, 0.0), LossOptions(0.1, 0.0), LossOptions(0.0, 3.0), LossOptions(0.2, 5.0)):
            logits = (5 * torch.randn(6, width)).to(kind).to(DEVICE)
            logits[1, :3] = 300.0
            targets = torch.randint(width, (3,))
            targets[2] = -1
            targets = targets.repeat(2).to(DEVICE)
            right = fused_loss.plain_rows(logits.clone(), targets, wanted)
            ours = loss_kernels.rows(logits.clone(), targets, wanted)
            for one, other in zip(ours, right, strict=True):
                torch.testing.assert_close(one.float(), other.float(), rtol=close, atol=close)
"""


def test_the_kernel_is_the_plain_version_by_interpretation():
    pytest.importorskip("triton", reason="Triton, which the kernel is written in, is not installed")
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    subprocess.run([sys.executable, "-c", KERNEL.replace("DEVICE", "'cpu'")], env=environment, check=True)


@pytest.mark.gpu
def test_the_kernel_is_the_plain_version_on_a_gpu():
    subprocess.run([sys.executable, "-c", KERNEL.replace("DEVICE", "'cuda'")], check=True)


def test_hostile_logits_stay_finite():
    rows = plain_rows(torch.tensor([[1e30, -1e30, 0.0], [0.0, 1e4, -1e4]]), torch.tensor([0, 1]), LossOptions(0.0, 2.0))
    assert rows.grad_logits.isfinite().all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_word_that_is_next_to_impossible_costs_what_it_costs(smoothing):
    """Its probability is zero in float32, and its logarithm is not."""
    output, features, targets = given()
    nn.init.normal_(output.weight, std=300.0)
    logits = output(features).detach()
    loss = output_loss(output, features, targets, LossOptions(smoothing, 0.0))
    right = nn.functional.cross_entropy(logits, targets, reduction="none")
    assert right.max() > 200
    torch.testing.assert_close(loss.nll, right)
    torch.testing.assert_close(loss.total, cross_entropy(logits, targets, smoothing).total)
