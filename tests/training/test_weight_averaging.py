"""Averages against explicit means."""

import contextlib

import pytest
import torch
from torch import nn

from regard.config import TrainingConfig
from regard.models.model_folder import weights_of
from regard.training.run_state import Score
from regard.training.weight_averaging import averages


def made(kind, **settings):
    return averages[kind](TrainingConfig(average=kind, **settings))


def walk(average, steps, checkpoint_every=2):
    """Give an average the weights of a random walk; return them all."""
    torch.manual_seed(1)
    weights = {"a": torch.randn(3, 5), "b": torch.randn(7)}
    past = [{name: tensor.clone() for name, tensor in weights.items()}]
    average.start(weights)
    for step in range(1, steps + 1):
        for tensor in weights.values():
            tensor += torch.randn_like(tensor)
        average.step(step, weights)
        if step % checkpoint_every == 0:
            average.checkpoint(step, weights)
        past.append({name: tensor.clone() for name, tensor in weights.items()})
    return past


def test_last_is_the_mean_of_the_last_checkpoints():
    average = made("last", average_last=3)
    past = walk(average, 11)
    for name, tensor in average.mean(past[-1]).items():
        expected = torch.stack([past[step][name].double() for step in (6, 8, 10)]).mean(dim=0).float()
        assert torch.equal(tensor, expected)


def test_last_before_the_first_checkpoint_is_now():
    average = made("last")
    past = walk(average, 1)
    assert average.mean(past[-1]) is past[-1]


def test_one_step_counts_once():
    average = made("last", average_last=2)
    past = walk(average, 4)
    average.checkpoint(4, past[-1])
    assert list(average.files()) == ["average-00000002.safetensors", "average-00000004.safetensors"]


def validated_walk(average, scores):
    """Validate the weights of a random walk at each step, with the given scores; return all weights."""
    torch.manual_seed(1)
    weights = {"a": torch.randn(3, 5), "b": torch.randn(7)}
    past, history = [None], []
    for step, score in enumerate(scores, start=1):
        for tensor in weights.values():
            tensor += torch.randn_like(tensor)
        history.append(Score(step, score, loss=1.0))
        average.validated(history, weights)
        past.append({name: tensor.clone() for name, tensor in weights.items()})
    return past


@pytest.mark.parametrize(
    ("scores", "kept"),
    [
        ([5.0], [1]),
        ([1.0, 2.0, 3.0, 4.0], [2, 3, 4]),
        ([4.0, 3.0, 2.0, 1.0], [1, 2, 3]),
        ([1.0, 9.0, 2.0, 8.0, 0.0, 7.0], [2, 4, 6]),
        ([5.0, 5.0, 5.0, 5.0], [1, 2, 3]),  # among equals the earlier ones stay
    ],
)
def test_best_is_the_mean_of_the_best_validated(scores, kept):
    average = made("best", average_last=3)
    past = validated_walk(average, scores)
    assert list(average.files()) == [f"average-{step:08d}.safetensors" for step in kept]
    for name, tensor in average.mean(past[-1]).items():
        expected = torch.stack([past[step][name].double() for step in kept]).mean(dim=0).float()
        assert torch.equal(tensor, expected)
    assert average.is_new(len(scores), best=1) == (len(scores) in kept)


def test_best_goes_by_the_loss_among_equal_scores():
    average = made("best", average_last=1)
    weights = {"a": torch.zeros(3)}
    history = [Score(1, 0.0, loss=3.0)]
    average.validated(history, weights)
    average.validated([*history, Score(2, 0.0, loss=2.0)], weights)
    assert list(average.files()) == ["average-00000002.safetensors"]


def test_best_before_the_first_validation_is_now():
    average = made("best")
    past = walk(average, 3)
    assert average.mean(past[-1]) is past[-1]


def test_best_validates_each_checkpoint_by_itself():
    average, model = made("best", average_last=2), nn.Linear(3, 5)
    history = [Score(1, 1.0, loss=1.0)]
    average.validated(history, weights_of(model))
    with torch.no_grad():
        model.weight += 1
    before = model.weight.clone()
    with average.applied(model):
        assert torch.equal(model.weight, before)


def test_ema_is_the_exponential_mean():
    average = made("ema", ema_decay=0.6)
    past = walk(average, 20)
    expected = past[0]
    for step, weights in enumerate(past[1:], start=1):
        decay = min(0.6, (1 + step) / (10 + step))
        expected = {name: decay * expected[name] + (1 - decay) * weights[name] for name in expected}
    for name, tensor in average.mean(past[-1]).items():
        torch.testing.assert_close(tensor, expected[name])


@pytest.mark.parametrize("kind", averages)
def test_what_is_saved_is_enough_to_go_on(kind):
    average, again = made(kind, average_last=3), made(kind, average_last=3)
    past = walk(average, 9)
    again.start(past[0])
    again.load({name: {k: v.clone() for k, v in weights.items()} for name, weights in average.files().items()})
    for one in (average, again):
        one.step(10, past[3])
        one.checkpoint(10, past[3])
        one.validated([Score(10, 1.0, loss=1.0)], past[3])
    assert average.files().keys() == again.files().keys()
    for name, tensor in average.mean(past[3]).items():
        assert torch.equal(tensor, again.mean(past[3])[name])


@pytest.mark.parametrize("kind", averages)
def test_a_model_has_the_average_for_a_while_only(kind):
    model = nn.Linear(3, 5)
    average = made(kind)
    weights = weights_of(model)
    average.start(weights)
    with torch.no_grad():
        model.weight += 1
    average.step(1, weights)
    average.checkpoint(1, weights)
    with torch.no_grad():
        model.weight += 1
    before = model.weight.clone()
    mean = average.mean(weights)["weight"].clone()
    if kind == "best":
        assert torch.equal(mean, before)
    with contextlib.suppress(ZeroDivisionError), average.applied(model):
        assert torch.equal(model.weight, mean)
        raise ZeroDivisionError
    assert torch.equal(model.weight, before)
