"""World size is no part of the result: several processes that share batches train as one does."""

import contextlib
import functools
import math
import os
import shutil
import signal
from dataclasses import replace

import many_tasks
import numpy as np
import pytest
import ranks
import tiny_run
import torch
from many_tasks import FAMILIES, clothes, family, told, weights
from tiny_run import Listener

from regard.config import TrainingConfig
from regard.data.batching import Batch
from regard.distributed import World, current, share
from regard.models.build import build_model
from regard.training.cuda_graphs import Steps
from regard.training.data_parallel import AllReducedSteps
from regard.training.objective import SequenceObjective
from regard.training.trainer import Trainer

EACH = "training.validate_every=1"
UNEVEN = {
    # Most batches have fewer sentences than there are processes, and a step has several of them.
    "few rows": ("bahdanau2014-small", "training.batch_tokens=16", "training.accumulate=3"),
    "guided": ("bahdanau2014-small", "training.guided=0.5", "model.attention.coverage=see2017"),
    "coverage": ("luong2015-small", "model.attention.coverage=see2017", "training.coverage_loss=0.5"),
    "copying": ("bahdanau2014-small", "model.copy=true"),
    # No unit is dropped at such a rate, so that two passes are the same but for the loss's own arithmetic.
    "two passes": ("transformer2017-small", "training.r_drop=2", "model.dropout=1e-12", "training.average=last", EACH),
    "cut anew": ("transformer2017-small", "tokenizer.sampling=0.1", "training.average=best", EACH),
    # All looks are soft: what is drawn by chance depends on the number of processes.
    "rewards": ("xu2015-hard-small", "model.attention.soft_chance=1"),
    "questions": ("asker-small", "training.asked=3", "training.batch_tokens=32"),
    "objects": ("carion2020-small", "training.batch_tokens=16"),
}


def many(folder, runs, pictures):
    """Make small runs in float64; return what they told."""
    many_tasks.undrawn()
    many_tasks.in_float64()
    found = {}
    for name, (start, *changes) in runs.items():
        many_tasks.train(family(start, pictures, *changes), folder / name)
        found[name] = told(folder / name)
    return found


def assert_alike(one, other, within):
    assert len(one) == len(other)
    for line, counterpart in zip(one, other, strict=True):
        assert line.keys() == counterpart.keys()
        for name, value in line.items():
            if isinstance(value, float):
                assert math.isclose(value, counterpart[name], rel_tol=within, abs_tol=within), (name, value, line)
            else:
                assert value == counterpart[name]


@pytest.mark.parametrize(
    ("size", "runs"), [(2, {name: (name,) for name in FAMILIES}), (3, UNEVEN)], ids=["families in 2", "uneven in 3"]
)
def test_several_processes_train_as_one(tmp_path, size, runs):
    pictures = clothes(tmp_path / "clothes")
    [plain] = ranks.run(0, many, tmp_path / "one", runs, pictures)
    found, *_ = ranks.run(size, many, tmp_path / "several", runs, pictures)
    for name in runs:
        assert_alike(found[name], plain[name], 1e-9)
        one, several = (weights(tmp_path / part / name) for part in ("one", "several"))
        for key, value in one.items():
            torch.testing.assert_close(several[key], value, rtol=1e-9, atol=1e-9, msg=f"{name}: {key}")


def fifty_steps(folder, names):
    """Train in float32."""
    many_tasks.undrawn()
    for name in names:
        steps = ("training.steps=50", "training.validate_every=0", "training.epochs=100")
        many_tasks.train(family(name, folder, *steps), folder / name)


@pytest.mark.slow
def test_in_float32_weights_stay_together_for_fifty_steps(tmp_path):
    """But for the biases of keys: softmax does not see them, and Adam follows what rounding leaves of no slope."""
    names = ("bahdanau2014-small", "transformer2017-small")
    ranks.run(0, fifty_steps, tmp_path / "one", names)
    ranks.run(2, fifty_steps, tmp_path / "several", names)
    for name in names:
        one, several = (weights(tmp_path / part / name) for part in ("one", "several"))
        for key, value in one.items():
            if not key.endswith("W_k.bias"):
                torch.testing.assert_close(several[key], value, rtol=0, atol=1e-6, msg=f"{name}: {key}")


@pytest.mark.parametrize(("count", "each", "size"), [(7, 1, 2), (7, 1, 3), (2, 1, 3), (12, 3, 5), (0, 1, 2)])
def test_every_row_is_one_process_s_and_those_of_a_group_stay_together(count, each, size):
    rows = np.arange(count) * 10
    parts = [World(rank, size).part(rows, each) for rank in range(size)]
    assert sorted(np.concatenate(parts)) == [*rows]
    assert max(map(len, parts)) - min(map(len, parts)) <= each
    for part in parts:
        for group in part.reshape(-1, each):
            assert [*group] == [*range(group[0], group[0] + 10 * each, 10)]


def shared(items):
    asked = []
    found = share(items, lambda item: (item * item, current().rank), lambda: asked.append(0))
    return found, len(asked)


def test_what_is_shared_is_returned_in_order_and_all_are_asked_equally_often():
    squares = [item * item for item in range(7)]
    [(found, asked)] = ranks.run(0, shared, range(7))
    assert ([square for square, _ in found], asked) == (squares, 7)
    for found, asked in ranks.run(3, shared, range(7)):
        assert found == [(square, item % 3) for item, square in enumerate(squares)]
        assert asked == 3


def by_row(rows):
    """Make sentences that depend on the row of each alone, of at most 5 and 3 tokens."""
    random = [np.random.default_rng([11, int(row)]) for row in rows]
    source, target = (
        torch.from_numpy(np.stack([one.integers(4, tiny_run.WORDS, length) for one in random])) for length in (5, 3)
    )
    source_mask, target_mask = (
        torch.arange(length) < torch.tensor([[int(one.integers(1, length + 1))] for one in random]) for length in (5, 3)
    )
    before = torch.cat([torch.full_like(target[:, :1], 2), target[:, :-1]], dim=1)
    return Batch(
        source * source_mask, source_mask, before * target_mask, target * target_mask, target_mask, np.asarray(rows)
    )


def part_of_a_run(folder, *changes, stop_at=None, fails=None, resume=False):
    """Make a run of tiny_run's; the last process is asked to stop after a step, or its loss is spoilt there."""
    with pytest.MonkeyPatch.context() as patch:
        tiny_run.install(patch, replace(tiny_run.DATA, batch=by_row))
        config = tiny_run.settings(**{**PLAIN, **dict(changes)})
        world, last = current(), current().rank == current().size - 1
        if fails is not None and last:
            step = Trainer._step

            def spoilt(trainer, ahead):
                if trainer.place.step + 1 == fails:
                    next(trainer.model.parameters()).data.fill_(math.nan)
                step(trainer, ahead)

            patch.setattr(Trainer, "_step", spoilt)
        if stop_at is not None and last:
            after = Trainer._read

            def asked(trainer, most):
                if trainer.place.step == stop_at:
                    os.kill(os.getpid(), signal.SIGTERM)
                after(trainer, most)

            patch.setattr(Trainer, "_read", asked)
        listener = Listener()
        result = tiny_run.train(config, folder, resume=resume, reporter=listener)
        return result.end, result.steps, result.best_step, listener.messages, world.rank


PLAIN = {"log_every": 1, "validate_every": 2, "precision": "float32"}
NO_DROPOUT = (("model", replace(tiny_run.MODEL, dropout=0.0)),)


def test_a_stopped_run_goes_on_with_any_number_of_processes(tmp_path):
    """All stop at one step, whichever was asked; 2, 1 and 4 processes end as one that never stopped."""
    rarely = (*NO_DROPOUT, ("validate_every", 5))  # a validation asks all by itself
    ranks.run(0, part_of_a_run, tmp_path / "whole", *rarely)
    stopped = ranks.run(2, functools.partial(part_of_a_run, stop_at=2), tmp_path / "parts", *rarely)
    assert {(end, steps) for end, steps, *_ in stopped} == {("interrupted", 3)}
    messages = stopped[0][3]
    assert messages[-2:] == [
        "Stopping after this step and saving. Press Ctrl-C again to quit at once.",
        "Stopped after step 3 and saved. Go on with --resume.",
    ]
    assert stopped[1][3] == []
    [(end, steps, *_)] = ranks.run(
        0, functools.partial(part_of_a_run, stop_at=6, resume=True), tmp_path / "parts", *rarely
    )
    assert (end, steps) == ("interrupted", 6)
    ended = ranks.run(4, functools.partial(part_of_a_run, resume=True), tmp_path / "parts", *rarely)
    assert {(end, steps) for end, steps, *_ in ended} == {("epochs", 9)}
    one, several = told(tmp_path / "whole"), told(tmp_path / "parts")
    assert_alike(one, several, 1e-4)
    for key, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "parts")[key], value, rtol=0, atol=1e-5)


@pytest.mark.parametrize("size", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_resumed_with_as_many_processes_a_run_ends_the_same_bit_for_bit(tmp_path, size):
    """With dropout, which each process has of its own."""
    ranks.run(size, part_of_a_run, tmp_path / "whole")
    ranks.run(size, functools.partial(part_of_a_run, stop_at=2), tmp_path / "parts")
    ranks.run(size, functools.partial(part_of_a_run, stop_at=5, resume=True), tmp_path / "parts")
    ranks.run(size, functools.partial(part_of_a_run, resume=True), tmp_path / "parts")
    assert tiny_run.contents(tmp_path / "parts") == tiny_run.contents(tmp_path / "whole")


def test_patience_ends_all_processes_at_one_step(tmp_path):
    changes = (("patience", 1), ("validate_every", 1))
    [whole] = ranks.run(0, part_of_a_run, tmp_path / "whole", *changes, *NO_DROPOUT)
    found = ranks.run(2, part_of_a_run, tmp_path / "several", *changes, *NO_DROPOUT)
    assert whole[0] == "patience"
    assert [one[:3] for one in found] == [whole[:3]] * 2


def test_minutes_are_those_of_the_first_process(tmp_path):
    changes = (("minutes", 0.03), ("epochs", 10_000), ("patience", 0), ("schedule", "cosine"), ("validate_every", 0))
    found = ranks.run(2, part_of_a_run, tmp_path / "m", *changes)
    assert {end for end, *_ in found} == {"minutes"}
    assert len({steps for _, steps, *_ in found}) == 1


def test_what_is_not_finite_in_one_process_stops_all_and_the_batch_is_named(tmp_path):
    found = ranks.answers(ranks.start(2, functools.partial(part_of_a_run, fails=4), tmp_path / "m"))
    assert [str(one) for one in found] == [
        "The loss is not finite at step 4 (epoch 2, batches 1 to 2, in the rows of process 1 of 2), so training "
        "stopped. The last good checkpoint, of step 2, is kept: go on from it with --resume and a lower "
        "training.learning_rate or training.clip."
    ] * 2


SHARDED = {
    "ema": ("transformer2017-small", "training.average=ema"),
    "momentum": ("bahdanau2014-small", "training.average=last", "training.optimizer=sgd", "training.momentum=0.9"),
}


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_model_that_is_cut_up_is_trained_as_a_whole_one(tmp_path, size):
    runs = SHARDED if size > 1 else {"ema": SHARDED["ema"]}
    ranks.run(0, many, tmp_path / "one", runs, tmp_path)
    ranks.run(
        size, many, tmp_path / "several", {name: (*run, "training.shard=true") for name, run in runs.items()}, tmp_path
    )
    for name in runs:
        assert_alike(told(tmp_path / "several" / name), told(tmp_path / "one" / name), 1e-9)
        for key, value in weights(tmp_path / "one" / name).items():
            torch.testing.assert_close(weights(tmp_path / "several" / name)[key], value, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
def test_a_run_goes_on_whole_or_cut_up(tmp_path):
    """And bit for bit, where both parts of it are cut up alike."""
    shard = (*NO_DROPOUT, ("shard", True), ("average", "ema"))
    ranks.run(2, part_of_a_run, tmp_path / "whole", *shard)
    ranks.run(2, functools.partial(part_of_a_run, stop_at=3), tmp_path / "alike", *shard)
    shutil.copytree(tmp_path / "alike", tmp_path / "other")
    ranks.run(2, functools.partial(part_of_a_run, resume=True), tmp_path / "alike", *shard)
    ranks.run(0, functools.partial(part_of_a_run, resume=True), tmp_path / "other", *NO_DROPOUT, ("average", "ema"))
    assert tiny_run.contents(tmp_path / "alike") == tiny_run.contents(tmp_path / "whole")
    for key, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "other")[key], value, rtol=0, atol=1e-5)


def summed_afterwards():
    """Return the gradients of a batch that is reduced when the backward pass is over, as recorded steps are."""
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(3)
    model, config = build_model(NO_DROPOUT[0][1], tiny_run.WORDS, tiny_run.WORDS), TrainingConfig()
    steps = Steps(SequenceObjective(model, config), contextlib.nullcontext, torch.device("cpu"))
    world = current()
    whole = by_row(np.arange(7))
    batches = [by_row(world.part(whole.rows)), by_row(world.part(np.arange(3)))]
    AllReducedSteps(steps, model, world).all_of(batches, [whole.count] * 2)
    return {name: one.grad.numpy() for name, one in model.named_parameters()}


def test_gradients_that_are_summed_after_the_backward_pass_are_the_same():
    """On the CPU the graphs that need it are not there, but the sum is."""
    [expected] = ranks.run(0, summed_afterwards)
    for found in ranks.run(2, summed_afterwards):
        assert found.keys() == expected.keys()
        for name, gradient in found.items():
            np.testing.assert_allclose(gradient, expected[name], rtol=0, atol=2e-7, err_msg=name)
