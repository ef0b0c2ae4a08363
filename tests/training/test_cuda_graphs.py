"""Filled batches cost what they cost before, and steps that are recorded and replayed leave the same gradients."""

import contextlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from tiny_run import HARD, LOOKING, MODEL, WORDS, batch

from regard.config import AttentionConfig, DecoderConfig, EncoderConfig, ModelConfig, TrainingConfig
from regard.data.batching import IGNORED, BatchOrder, BatchShape, few_shape, rounded
from regard.models.build import build_model
from regard.presets import preset, presets
from regard.presets.vision import any_preset
from regard.training.cuda_graphs import RecordedSteps, Steps, own_stream
from regard.training.objective import SequenceObjective
from regard.training.trainer import records_steps

TRANSFORMER = ModelConfig(
    embedding=8,
    encoder=EncoderConfig("transformer", width=8, feed_forward=9),
    decoder=DecoderConfig("transformer", width=8, feed_forward=9),
    attention=AttentionConfig("scaled-dot", heads=2, project=True),
)
LARGER = BatchShape(5, 7, 4, 11)


def gradients(model, settings, given):
    torch.manual_seed(3)
    model.zero_grad(set_to_none=True)
    made = Steps(SequenceObjective(model, settings), contextlib.nullcontext, torch.device("cpu"))(given, 7)
    return made, {name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None}


@pytest.mark.parametrize(
    ("model", "training"),
    [
        (MODEL, {}),
        (LOOKING, {"coverage_loss": 0.5}),
        (MODEL, {"guided": 0.7, "label_smoothing": 0.1}),
        (TRANSFORMER, {"r_drop": 2.0, "guided": 0.3, "guided_head": 1}),
    ],
    ids=["plain", "coverage", "guided", "two passes"],
)
def test_filled_batches_cost_the_same(model, training):
    torch.manual_seed(1)
    built = build_model(replace(model, dropout=0.0), WORDS, WORDS)
    given, settings = batch(range(3)), TrainingConfig(**training)
    plain, expected = gradients(built, settings, given)
    filled, found = gradients(built, settings, given.filled(LARGER))
    torch.testing.assert_close(filled.loss, plain.loss)
    assert filled.beside.keys() == plain.beside.keys()
    for name, value in plain.beside.items():
        torch.testing.assert_close(filled.beside[name], value, rtol=1e-4, atol=1e-5)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-6)


def test_rewards_of_filled_rows_are_told_last():
    torch.manual_seed(1)
    built = build_model(replace(HARD, dropout=0.0), WORDS, WORDS)
    made, _ = gradients(built, TrainingConfig(), batch(range(3)).filled(LARGER))
    assert made.reached is not None
    assert (made.reached[:3] < 0).all()
    assert (made.reached[3:] == 0).all()


def test_a_filled_batch_keeps_what_it_had():
    given = batch(range(3))
    filled = given.filled(LARGER)
    assert filled.shape == LARGER
    assert filled.target_mask.sum() == given.target_mask.sum()
    assert (filled.tokens_out[filled.target_mask] == given.tokens_out[given.target_mask]).all()
    assert (filled.tokens_out[~filled.target_mask] == IGNORED).all()
    assert (filled.source_mask.sum(dim=1) > 0).all()
    assert (filled.rows == given.rows).all()


def test_lengths_are_rounded_to_few():
    lengths = np.arange(1, 1000)
    found = np.array([rounded(int(length)) for length in lengths])
    assert (found >= lengths).all()
    assert (found <= 1.25 * lengths).all()
    assert len(set(found)) < 40
    assert few_shape(BatchShape(3, 17, 9, 0), 100, 99) == BatchShape(5, 20, 10, 0)
    assert few_shape(BatchShape(1, 300, 9, 4), 100, 999) == BatchShape(1, 320, 10, 20)
    assert few_shape(BatchShape(3, 17, 9, 0), 100, 18) == BatchShape(5, 18, 10, 0)  # no model needs more than 18 places
    assert few_shape(BatchShape(3, 17, 9, 0), 100, 16) == BatchShape(5, 17, 10, 0)


def test_captioners_that_normalise_over_a_batch_are_not_filled_up():
    config, cuda = any_preset("xu2015-soft-small"), torch.device("cuda")
    over = replace(config, model=replace(config.model, image=replace(config.model.image, normalise="batch")))
    assert records_steps(config, cuda)
    assert not records_steps(over, cuda)


def test_long_texts_are_drawn_in_few_shapes():
    lengths = np.array([600, 20, 513, 4000])
    batches = BatchOrder(lengths, lengths[::-1], 4000, 1, few_shapes=True).batches(1)
    assert sorted(row for batch in batches for row in batch) == [0, 1, 2, 3]


# -- on a GPU ---------------------------------------------------------------------------------------------------------


def gpu_batch(number, shape, seed):
    random = np.random.default_rng([seed, number])
    lengths = torch.from_numpy(random.integers(1, shape.source + 1, shape.rows))
    made = batch(range(number * 10, number * 10 + 3))
    made = made._replace(links=None).filled(BatchShape(shape.rows, shape.source, shape.target, 0))
    source_mask = torch.arange(shape.source) < lengths[:, None]
    source = torch.from_numpy(random.integers(4, WORDS, (shape.rows, shape.source))) * source_mask
    made = made._replace(source=source, source_mask=source_mask, lengths=lengths)
    return made.pinned()


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "name", [name for name in presets if not name.endswith("-big") and preset(name).model.task == "write"]
)
def test_recorded_steps_leave_the_same_gradients(name, precision):
    device, config = torch.device("cuda"), preset(name)
    small = replace(config.model.encoder, layers=min(config.model.encoder.layers, 3))
    below = replace(config.model.decoder, layers=min(config.model.decoder.layers, 3))
    torch.manual_seed(1)
    model = build_model(replace(config.model, encoder=small, decoder=below), WORDS, WORDS).to(device).train()

    def autocast():
        return torch.autocast("cuda", torch.bfloat16) if precision == "bfloat16" else contextlib.nullcontext()

    said = []
    objective = SequenceObjective(model, replace(config.training, guided=0.0))
    with own_stream(device):
        plain, recorded = Steps(objective, autocast, device), RecordedSteps(objective, autocast, device, said.append)
        shapes = [BatchShape(6, 8, 5, 0), BatchShape(4, 12, 7, 0)]
        batches = [gpu_batch(number, shapes[number % 2], 5) for number in range(8)]
        for number, given in enumerate(batches):
            found = []
            for steps in (plain, recorded):
                torch.cuda.manual_seed_all(number)
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad.zero_()
                made = steps(given, 7)
                grads = {key: one.grad.clone() for key, one in model.named_parameters() if one.grad is not None}
                found.append((made.loss.item(), grads))
            close = 1e-3 if precision == "float32" else 5e-2
            assert abs(found[0][0] - found[1][0]) <= close * abs(found[0][0])
            norm = torch.stack([one.norm() for one in found[0][1].values()]).norm()
            apart = torch.stack([(found[0][1][key] - found[1][1][key]).norm() for key in found[0][1]]).norm()
            assert apart <= close * norm, f"{number}: {apart / norm}"
    assert not said, said
