"""Scheduled sampling: how often, which words, and that the gradient is that of the steps."""

import itertools
from dataclasses import replace

import pytest
import torch
from tiny_run import MODEL, PLAIN, WORDS, batch
from torch.nn import functional

from regard.config import DecoderConfig, EncoderConfig, TrainingConfig
from regard.models.build import build_model
from regard.training.learning_rate_schedule import ScheduleStep
from regard.training.objective import SequenceObjective
from regard.training.plain_loss import batch_loss
from regard.training.scheduled_sampling import forcing_ratio, forcings, mixed_tokens

FED = replace(MODEL, decoder=DecoderConfig(kind="luong", width=7, readout="tanh", readout_width=5, input_feeding=True))
TRANSFORMER = replace(
    MODEL,
    embedding=12,
    encoder=EncoderConfig(kind="transformer", width=12, layers=1, feed_forward=11),
    decoder=DecoderConfig(kind="transformer", width=12, layers=2, feed_forward=11),
    attention=replace(MODEL.attention, score="scaled-dot", heads=3, project=True),
    positions="sinusoidal",
)
LANGUAGE = replace(TRANSFORMER, encoder=EncoderConfig(kind="none"), attention=None)
MODELS = {
    "bahdanau": MODEL,
    "plain": PLAIN,
    "fed": FED,
    "at once": replace(FED, decoder=replace(FED.decoder, input_feeding=False)),
    "transformer": TRANSFORMER,
    "language": LANGUAGE,
}


def made(config, dropout=0.0):
    torch.manual_seed(3)
    if config.encoder.kind == "transformer" or config is LANGUAGE:
        config = replace(config, self_attention=replace(config.self_attention, heads=3))
    return build_model(replace(config, dropout=dropout), WORDS, WORDS).train()


@pytest.mark.parametrize("name", forcings)
def test_a_schedule_falls_from_one_to_the_ratio(name):
    config = TrainingConfig(teacher_forcing=0.3, teacher_forcing_schedule=name)
    ratios = [forcing_ratio(ScheduleStep(step, 11), config) for step in range(1, 14)]
    assert ratios[10:] == [pytest.approx(0.3)] * 3
    assert ratios[0] == pytest.approx(0.3 if name == "constant" else 1.0)
    assert all(after <= before + 1e-12 for before, after in itertools.pairwise(ratios))


def test_schedules_half_way():
    def half(name):
        config = TrainingConfig(teacher_forcing=0.2, teacher_forcing_schedule=name)
        return (forcing_ratio(ScheduleStep(6, 11), config) - 0.2) / 0.8

    assert half("linear") == pytest.approx(0.5)
    assert half("inverse-sigmoid") == pytest.approx(0.5)
    assert half("exponential") == pytest.approx((0.1 - 0.01) / 0.99)


def test_with_a_ratio_of_one_nothing_is_drawn():
    assert forcing_ratio(ScheduleStep(5, 9), TrainingConfig(teacher_forcing_schedule="linear")) == 1.0
    model, given = made(MODEL, dropout=0.3), batch(range(5))
    settings = TrainingConfig(label_smoothing=0.1)
    torch.manual_seed(5)
    ours = SequenceObjective(model, settings)(given, ratio=1.0)
    after = torch.random.get_rng_state()
    torch.manual_seed(5)
    plain = batch_loss(model, given, 0.1)
    assert torch.equal(after, torch.random.get_rng_state())
    assert torch.equal(ours.total, plain.total)
    assert ours.beside == {}


def test_the_start_stays_and_the_ratio_is_kept():
    model = made(PLAIN)
    source, mask = torch.full((400, 2), 5), torch.ones(400, 2, dtype=torch.bool)
    tokens = torch.full((400, 7), 29)
    tokens[:, 0] = 2
    encoded = model.encode(source, mask)
    torch.manual_seed(4)
    for ratio in (0.0, 0.25, 0.8, 1.0):
        read = mixed_tokens(model, encoded, tokens, ratio)
        assert torch.equal(read[:, 0], tokens[:, 0])
        # The model may draw the right word too, once in thirty times.
        share = float((read[:, 1:] == 29).double().mean())
        assert share == pytest.approx(ratio + (1 - ratio) / WORDS, abs=0.04)
    torch.manual_seed(9)
    first = mixed_tokens(model, encoded, tokens, 0.5)
    torch.manual_seed(9)
    assert torch.equal(first, mixed_tokens(model, encoded, tokens, 0.5))
    assert not read.requires_grad


def greedy(probabilities, count):
    return probabilities.argmax(dim=-1, keepdim=True)


@pytest.mark.parametrize("name", MODELS)
def test_own_words_follow_from_all_that_was_read(name, monkeypatch):
    """With the most probable word in place of a drawn one, the run is that of explicit steps, gradient included."""
    monkeypatch.setattr(torch, "multinomial", greedy)
    model, given = made(MODELS[name]).double(), batch(range(5))
    mask = given.target_mask
    torch.manual_seed(6)
    ours = SequenceObjective(model, TrainingConfig())(given, ratio=0.4)
    ours.total.backward()
    gradients = {key: p.grad.clone() for key, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()

    torch.manual_seed(6)
    state = model.decoder.start(model.encode(given.source, given.source_mask))
    token, total, own = given.tokens_in[:, 0], 0.0, 0
    for t in range(given.tokens_in.shape[1]):
        step = model.decoder.step(token, state)
        lost = functional.cross_entropy(step.logits, given.tokens_out[:, t], reduction="none")
        total = total + lost[mask[:, t]].sum()
        if t + 1 < given.tokens_in.shape[1]:
            right = torch.rand(5) < 0.4
            token = torch.where(right, given.tokens_in[:, t + 1], step.logits.argmax(dim=-1))
            own += int((~right).sum())
        state = step.state
    assert own
    torch.testing.assert_close(ours.total.double(), total, rtol=1e-6, atol=1e-6)
    total.backward()
    expected = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    assert gradients.keys() == expected.keys()
    for key, gradient in expected.items():
        torch.testing.assert_close(gradients[key], gradient, rtol=1e-5, atol=1e-6)


def test_what_lies_under_the_padding_changes_nothing():
    model, clean = made(MODEL), batch(range(5))
    assert not clean.target_mask.all()
    poisoned = clean._replace(
        tokens_in=torch.where(clean.target_mask, clean.tokens_in, 17),
        tokens_out=torch.where(clean.target_mask, clean.tokens_out, 19),
    )
    totals = []
    for given in (clean, poisoned):
        torch.manual_seed(8)
        totals.append(SequenceObjective(model, TrainingConfig())(given, ratio=0.5).total)
    assert torch.equal(*totals)
