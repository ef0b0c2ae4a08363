"""The losses beside the cross-entropy, against explicit loops over their equations."""

import math
from dataclasses import replace

import pytest
import tiny_run
import torch
from tiny_run import HARD, LOOKING, MODEL, WORDS, Listener, batch, contents, install, settings, train
from torch.nn import functional

from regard.attention.focus.hard import Hard
from regard.config import TrainingConfig
from regard.errors import ConfigError
from regard.models.build import build_model
from regard.training.auxiliary_losses import (
    SMALLEST,
    check_looks,
    coverage_loss,
    guided_loss,
    one_step_later,
    r_drop_divergence,
    reinforce,
)
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import batch_loss
from regard.training.progress import Silent
from regard.training.trainer import Trainer

B, T, LAYERS, HEADS, S = 3, 5, 2, 7, 11


def made(config):
    torch.manual_seed(3)
    return build_model(replace(config, dropout=0.0), WORDS, WORDS).train()


def looks():
    torch.manual_seed(2)
    return torch.rand(B, T, LAYERS, HEADS, S, dtype=torch.float64).softmax(dim=-1).requires_grad_()


# -- coverage ---------------------------------------------------------------------------------------------------------


def test_coverage_is_the_sum_of_minima():
    model, given = made(LOOKING), batch(range(5))
    plain = batch_loss(model, given).total
    ours = SequenceObjective(model, TrainingConfig(coverage_loss=0.7))(given)
    encoded = model.encode(given.source, given.source_mask)
    weights = model.decoder.teach(given.tokens_in, encoded).weights[:, :, 0, 0].detach()
    expected = 0.0
    for b in range(weights.shape[0]):
        covered = [0.0] * weights.shape[2]
        for t in range(int(given.target_mask[b].sum())):
            for j in range(weights.shape[2]):
                expected += min(float(weights[b, t, j]), covered[j])
                covered[j] += float(weights[b, t, j])
    assert expected > 1
    assert float(ours.beside["coverage_loss"]) == pytest.approx(expected, rel=1e-5)
    assert float(ours.total.detach()) == pytest.approx(float(plain.detach()) + 0.7 * expected, rel=1e-5)
    torch.testing.assert_close(ours.loss, plain.detach())
    parameters = list(model.decoder.attention.parameters())
    for with_it, without in zip(
        torch.autograd.grad(ours.total, parameters), torch.autograd.grad(plain, parameters), strict=True
    ):
        assert not torch.allclose(with_it, without)


def test_coverage_sees_no_padding():
    overlap = torch.tensor([[1.0, 2.0], [4.0, math.nan]])
    assert float(coverage_loss(overlap, torch.tensor([[True, True], [True, False]]))) == 7.0


# -- R-Drop -----------------------------------------------------------------------------------------------------------


def test_disagreement_is_the_mean_of_both_divergences():
    torch.manual_seed(4)
    one, other = torch.randn(5, 9, dtype=torch.float64), torch.randn(5, 9, dtype=torch.float64)
    p, q = one.softmax(dim=-1), other.softmax(dim=-1)
    expected = 0.0
    for n in range(5):
        for k in range(9):
            expected += float(p[n, k]) * math.log(float(p[n, k] / q[n, k])) / 2
            expected += float(q[n, k]) * math.log(float(q[n, k] / p[n, k])) / 2
    assert float(r_drop_divergence(one, other)) == pytest.approx(expected, rel=1e-5)
    assert float(r_drop_divergence(one, one)) == 0.0


@pytest.mark.parametrize("config", [MODEL, LOOKING], ids=["plain", "looking"])
def test_two_passes_without_dropout_are_one(config):
    weights = {"guided": 0.3, "coverage_loss": 0.5 if config is LOOKING else 0.0}
    model, given = made(config), batch(range(5))
    once = SequenceObjective(model, TrainingConfig(**weights))(given)
    two = SequenceObjective(model, TrainingConfig(r_drop=3.0, **weights))(given)
    assert float(two.beside["disagreement"]) == pytest.approx(0.0, abs=1e-9)
    assert float(two.loss) == pytest.approx(float(once.loss), rel=1e-5)
    assert float(two.total.detach()) == pytest.approx(float(once.total.detach()), rel=1e-5)
    for name, value in once.beside.items():
        assert float(two.beside[name]) == pytest.approx(float(value), rel=1e-4)


def test_both_passes_read_the_same_words_of_their_own():
    two = SequenceObjective(made(MODEL), TrainingConfig(r_drop=3.0))(batch(range(5)), ratio=0.3)
    assert float(two.beside["disagreement"]) == pytest.approx(0.0, abs=1e-9)


def test_r_drop_makes_two_passes_agree(tmp_path, monkeypatch):
    install(monkeypatch)
    apart = {}
    for weight in (0.0001, 5.0):
        listener = Listener()
        chosen = {"r_drop": weight, "epochs": 12, "learning_rate": 0.03, "log_every": 1, "precision": "float32"}
        config = settings(replace(MODEL, dropout=0.5), **chosen)
        train(config, tmp_path / str(weight), reporter=listener)
        apart[weight] = [record["disagreement"] for record in listener.records if "disagreement" in record]
    assert apart[5.0][-1] < apart[0.0001][-1] / 2


# -- guided -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("layer", "head"), [(-1, -1), (0, -1), (1, 6), (-1, 0)])
def test_guided_is_the_cross_entropy_with_the_gold_links(layer, head):
    weights = looks()
    gold = {(0, 0): [3], (0, 4): [1, 2, 10], (2, 1): [0, 5]}
    links = torch.tensor([(b, t, s) for (b, t), linked in gold.items() for s in linked])
    expected = 0.0
    for (b, t), linked in gold.items():
        for s in linked:
            chosen = weights[b, t, layer]
            look = sum(chosen[h, s] for h in range(HEADS)) / HEADS if head == -1 else chosen[head, s]
            expected = expected - torch.log(look) / len(linked)
    ours = guided_loss(weights, links, layer, head)
    torch.testing.assert_close(ours.double(), expected, rtol=1e-6, atol=1e-6)
    (gradient,), (wanted,) = (torch.autograd.grad(loss, [weights]) for loss in (ours, expected))
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_guided_without_links_in_a_batch_is_zero():
    assert guided_loss(looks(), torch.zeros(0, 3, dtype=torch.int64), -1, -1).item() == 0.0


def test_a_look_that_missed_altogether_costs_no_infinity():
    weights = torch.zeros(1, 1, 1, 1, 2, requires_grad=True)
    loss = guided_loss(weights, torch.tensor([[0, 0, 1]]), -1, -1)
    loss.backward()
    assert loss.item() == pytest.approx(-math.log(SMALLEST))
    assert weights.grad.isfinite().all()


@pytest.mark.parametrize("model", [MODEL, HARD], ids=["soft", "hard"])
def test_guided_draws_attention_to_the_links(model, tmp_path, monkeypatch):
    install(monkeypatch)
    listener = Listener()
    config = settings(model, guided=1.0, epochs=12, learning_rate=0.03, log_every=1, validate_every=1000, save_every=0)
    train(config, tmp_path / "run", reporter=listener)
    losses = [record["guided_loss"] for record in listener.records if "guided_loss" in record]
    assert len(losses) == 36
    assert sum(losses[-3:]) < 0.8 * sum(losses[:3])


@pytest.mark.parametrize(
    ("layer", "head", "message"),
    [
        (2, -1, "training.guided_layer is 2; for this model it must be at least -1 and at most 1."),
        (-1, 7, "training.guided_head is 7; for this model it must be at least -1 and at most 6."),
    ],
)
def test_looks_that_are_not_there(layer, head, message):
    check_looks(looks(), 1, 6)
    with pytest.raises(ConfigError) as caught:
        check_looks(looks(), layer, head)
    assert str(caught.value) == message


# -- hard attention ---------------------------------------------------------------------------------------------------


def test_the_reward_against_its_equation():
    torch.manual_seed(1)
    log_prob, entropy, right = (torch.randn(B, T, dtype=torch.float64, requires_grad=True) for _ in range(3))
    lengths, baseline = (5, 2, 3), torch.tensor(-0.7)
    mask = torch.arange(T) < torch.tensor(lengths)[:, None]
    ours = reinforce(log_prob, entropy, right, mask, baseline, (0.3, 0.2))
    expected, rewards = 0.0, []
    for b, length in enumerate(lengths):
        rewards.append(sum(right[b, t].item() for t in range(length)) / length)
        for t in range(length):
            expected = expected - 0.3 * (rewards[b] + 0.7) * log_prob[b, t] - 0.2 * entropy[b, t]
    torch.testing.assert_close(ours.total.double(), expected, rtol=1e-6, atol=1e-6)
    assert ours.reached.tolist() == pytest.approx(rewards)
    inputs = [log_prob, entropy]
    for one, other in zip(torch.autograd.grad(ours.total, inputs), torch.autograd.grad(expected, inputs), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_the_reward_has_no_gradient_and_padding_no_say():
    right = torch.tensor([[1.0, math.nan]], requires_grad=True)
    log_prob = torch.tensor([[2.0, math.nan]], requires_grad=True)
    mask = torch.tensor([[True, False]])
    ours = reinforce(log_prob, None, right.masked_fill(~mask, 0.0), mask, torch.tensor(0.0), (1.0, 1.0))
    assert ours.total.item() == -2.0
    (_, of_right) = torch.autograd.grad(ours.total, [log_prob, right], allow_unused=True)
    assert of_right is None


@pytest.mark.parametrize("baseline", [0.0, -3.0])
def test_the_reward_is_unbiased_whatever_the_baseline(baseline):
    """Over all choices, weighed by their probability, it has the gradient of the expected log-likelihood."""
    scores = torch.tensor([0.3, -1.0, 0.5], requires_grad=True)
    reached = torch.tensor([-0.5, -2.0, -1.0])
    expectation = (scores.softmax(dim=-1) * reached).sum()
    (expected,) = torch.autograd.grad(-expectation, [scores])
    total = torch.zeros(3)
    for choice in range(3):
        log_prob = scores.log_softmax(dim=-1)[choice]
        made = reinforce(
            log_prob.view(1, 1),
            None,
            reached[choice].view(1, 1),
            torch.ones(1, 1, dtype=torch.bool),
            torch.tensor(baseline),
            (1.0, 0.0),
        )
        total += scores.detach().softmax(dim=-1)[choice] * torch.autograd.grad(made.total, [scores])[0]
    torch.testing.assert_close(total, expected)


def test_hard_attention_learns_where_to_look_from_the_reward_alone():
    model, given = made(HARD), batch(range(5))
    torch.manual_seed(1)
    model.decoder.attention.focus.soft_chance = 0.0
    made_of = SequenceObjective(model, TrainingConfig(reinforce=0.5, entropy=0.1))(given)
    parameters = list(model.decoder.attention.score.parameters())
    assert all(gradient.abs().max() > 0 for gradient in torch.autograd.grad(made_of.total, parameters))
    plain = SequenceObjective(model, TrainingConfig(reinforce=0.0, entropy=0.0))(given)
    assert all(gradient.abs().max() == 0 for gradient in torch.autograd.grad(plain.total, parameters))
    assert made_of.beside.keys() == {"attention_entropy"}


def test_the_baseline_follows_once_a_step(tmp_path):
    """Two batches make one step: the baseline is that of before in both, then it moves to the mean of all sentences."""
    model = made(HARD)
    trainer = Trainer(settings(HARD), tmp_path, model, tiny_run.DATA, Silent())
    (focus,) = [module for module in model.modules() if isinstance(module, Hard)]
    focus.baseline.fill_(-2.0)
    parts = [batch(range(2)), batch(range(10, 15))]
    torch.manual_seed(4)
    found = trainer._gradient(parts)
    assert focus.baseline.tolist() == [-2.0]
    torch.manual_seed(4)
    rewards = []
    for part in parts:
        encoded = model.encode(part.source, part.source_mask)
        logits = model.decoder.project(model.decoder.teach(part.tokens_in, encoded, look=False).features)
        for b, length in enumerate(part.target_mask.sum(dim=1)):
            lost = functional.cross_entropy(logits[b, :length], part.tokens_out[b, :length])
            rewards.append(-lost.item())
    trainer.objective.settle(found.reached)
    assert focus.baseline.item() == pytest.approx(0.9 * -2.0 + 0.1 * sum(rewards) / len(rewards), rel=1e-5)
    assert focus.baseline.grad is None


def test_the_baseline_is_kept_by_a_run(tmp_path, monkeypatch):
    from safetensors.torch import load

    install(monkeypatch)
    train(settings(HARD, epochs=1), tmp_path / "run")
    weights = load(contents(tmp_path / "run")["state/step-00000003/weights.safetensors"])
    (name,) = [name for name in weights if name.endswith("baseline")]
    # Three steps from 0 towards about -log 30.
    assert -0.271 * 4.5 < float(weights[name]) < -0.271 * 2.5


# -- what cannot be done ----------------------------------------------------------------------------------------------


def refusal(config, folder):
    with pytest.raises(ConfigError) as caught:
        train(config, folder)
    assert not folder.exists()
    return str(caught.value)


def test_guided_refuses_what_it_cannot_guide(tmp_path, monkeypatch):
    install(monkeypatch)
    assert refusal(settings(MODEL, guided=1.0, guided_layer=1), tmp_path / "run") == (
        "training.guided_layer is 1; for this model it must be at least -1 and at most 0."
    )
    unaligned = replace(tiny_run.DATA, batch=lambda rows: batch(rows)._replace(links=None))
    install(monkeypatch, unaligned)
    assert refusal(settings(MODEL, guided=1.0), tmp_path / "run") == (
        "training.guided needs gold alignments, and the training corpus has none: give them as a third file or column, "
        "or set training.guided=0."
    )


def test_the_best_are_unknown_without_a_validation(tmp_path, monkeypatch):
    install(monkeypatch, replace(tiny_run.DATA, validate=None))
    assert refusal(settings(average="best"), tmp_path / "run") == (
        "training.average=best goes by validations, and there is no validation corpus: give data.valid, or set "
        "training.average=last."
    )


def test_links_one_step_later():
    links = torch.tensor([[0, 0, 4], [0, 1, 1], [-1, -1, -1], [1, 1, 3]])  # the second: after the end, padding
    written = torch.tensor([[True, True, False], [True, True, True]])
    assert one_step_later(links, written).tolist() == [[0, 1, 4], [-1, -1, -1], [-1, -1, -1], [1, 2, 3]]
    looks = torch.full((2, 3, 1, 1, 5), 0.01)
    looks[0, 1, 0, 0, 4] = looks[1, 2, 0, 0, 3] = 1.0
    assert guided_loss(looks, one_step_later(links, written), -1, -1) == 0
    assert guided_loss(looks, links, -1, -1) > 10
