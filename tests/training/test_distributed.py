"""World size is no part of the result: several processes that share batches train as one does."""

import math

import many_tasks
import numpy as np
import pytest
import ranks
import torch
from many_tasks import FAMILIES, clothes, family, told, weights

from regard.distributed import World, current, share

UNEVEN = {
    # Most batches have fewer sentences than there are processes, and a step has several of them.
    "few rows": ("bahdanau2014-small", "training.batch_tokens=16", "training.accumulate=3"),
    "guided": ("bahdanau2014-small", "training.guided=0.5", "model.attention.coverage=see2017"),
    "coverage": ("luong2015-small", "model.attention.coverage=see2017", "training.coverage_loss=0.5"),
    "copying": ("bahdanau2014-small", "model.copy=true"),
    # No unit is dropped at such a rate, so that two passes are the same but for the loss's own arithmetic.
    "two passes": ("transformer2017-small", "training.r_drop=2", "model.dropout=1e-12", "training.average=last"),
    "cut anew": ("transformer2017-small", "tokenizer.sampling=0.1", "training.average=best"),
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
