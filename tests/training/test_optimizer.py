"""Optimizers against torch's plain ones; the state survives; accumulation is one larger batch."""

import pytest
import torch
from tiny_run import DATA, MODEL, WORDS, batch, settings
from torch import nn

from regard.config import TrainingConfig
from regard.models.build import build_model
from regard.training.optimizer import gradient_norm, load_state, optimizers, state_tensors
from regard.training.plain_loss import batch_loss
from regard.training.progress import Silent
from regard.training.trainer import Trainer

PLAIN = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def descend(make, steps, width=7):
    torch.manual_seed(2)
    model = nn.Linear(width, 3)
    optimizer = make(model)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(5, width)).square().mean().backward()
        optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("name", optimizers)
def test_each_is_torchs(name):
    config = TrainingConfig(optimizer=name, learning_rate=0.1, weight_decay=0.0 if name == "adam" else 0.2)
    plain = {"lr": 0.1, "foreach": False} | ({} if name == "adam" else {"weight_decay": 0.2})
    ours, _ = descend(lambda model: optimizers[name](model.parameters(), config), 5)
    theirs, _ = descend(lambda model: PLAIN[name](model.parameters(), **plain), 5)
    torch.testing.assert_close(ours.weight, theirs.weight)


def test_momentum_is_nesterovs():
    config = TrainingConfig(optimizer="sgd", learning_rate=0.1, momentum=0.9)
    ours, _ = descend(lambda model: optimizers["sgd"](model.parameters(), config), 5)
    theirs, _ = descend(lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True), 5)
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize("name", optimizers)
def test_state_goes_round(name):
    config = TrainingConfig(optimizer=name, learning_rate=0.1, momentum=0.9)
    model, optimizer = descend(lambda model: optimizers[name](model.parameters(), config), 5)
    names = {parameter: key for key, parameter in model.named_parameters()}
    saved = {key: tensor.clone() for key, tensor in state_tensors(optimizer, names).items()}
    other = optimizers[name](model.parameters(), config)
    load_state(other, names, saved)
    assert state_tensors(other, names).keys() == saved.keys()
    assert all(torch.equal(tensor, saved[key]) for key, tensor in state_tensors(other, names).items())
    assert saved


def test_clipping_is_torchs():
    model = nn.Linear(3, 5)
    model(torch.randn(2, 3)).square().sum().backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    norm = gradient_norm(model.parameters(), 0.0)
    assert all(torch.equal(p.grad, b) for p, b in zip(model.parameters(), before, strict=True))
    torch.testing.assert_close(norm, torch.cat([gradient.flatten() for gradient in before]).norm())
    gradient_norm(model.parameters(), 0.5)
    torch.testing.assert_close(gradient_norm(model.parameters(), 0.0), torch.tensor(0.5))


def test_accumulated_batches_have_the_gradient_of_all_their_tokens(tmp_path):
    """Two batches with different numbers of tokens: every token weighs the same, not every batch."""
    torch.manual_seed(3)
    model = build_model(MODEL, WORDS, WORDS).eval()
    trainer = Trainer(settings(), tmp_path, model, DATA, Silent())
    parts = [batch(range(2)), batch(range(10, 15))]
    tokens = [int(part.target_mask.sum()) for part in parts]
    assert tokens[0] != tokens[1]
    joined = [torch.cat(both) for both in list(zip(*parts, strict=True))[:5]]
    whole = parts[0]._replace(**dict(zip(parts[0]._fields[:5], joined, strict=True)))
    first = trainer._gradient([whole])
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    again = trainer._gradient(parts)
    assert first.tokens == again.tokens == sum(tokens)
    torch.testing.assert_close((first.loss, first.norm), (again.loss, again.norm))
    torch.testing.assert_close(first.loss, batch_loss(model, whole).nll.detach() / first.tokens)
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


@pytest.mark.parametrize("name", [name for name in optimizers if name != "sgd"])
def test_how_long_squared_gradients_are_remembered_is_a_setting(name):
    config = TrainingConfig(optimizer=name, learning_rate=0.1, beta2=0.7)
    plain = {"lr": 0.1, "foreach": False, "betas": (0.9, 0.7), "weight_decay": 0.0}
    ours, _ = descend(lambda model: optimizers[name](model.parameters(), config), 5)
    theirs, _ = descend(lambda model: PLAIN[name](model.parameters(), **plain), 5)
    torch.testing.assert_close(ours.weight, theirs.weight)


@pytest.mark.parametrize("name", optimizers)
def test_what_is_not_trained_by_gradient_is_left_alone(name):
    """A baseline of hard attention has no gradient: it is neither moved, nor decayed, nor counted in the norm."""
    frozen = nn.Parameter(torch.tensor([3.0]), requires_grad=False)
    free = nn.Parameter(torch.tensor([2.0]))
    config = TrainingConfig(optimizer=name, learning_rate=0.1, weight_decay=0.2)
    optimizer = optimizers[name]([frozen, free], config)
    free.square().sum().backward()
    assert float(gradient_norm([frozen, free], 1.0)) == 4.0
    optimizer.step()
    assert frozen.tolist() == [3.0]
    assert free.tolist() != [2.0]
    assert not any(key.startswith("frozen/") for key in state_tensors(optimizer, {frozen: "frozen", free: "free"}))
