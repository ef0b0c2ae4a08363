"""Laws of loops that make gradients at once: they are those of autograd, for all that a loop may do at every step."""

import gc
import weakref

import pytest
import torch

from regard import batched_weight_gradients, prepacked_matmul
from regard.allocator import keep_memory
from regard.layers.dropout import Dropout
from regard.layers.rnn_cells import CellState, cells
from regard.masks import erase, from_lengths

B, H, S, T, K = 3, 2, 7, 5, 11


def drawn(*shape, kind=torch.float64):
    return torch.randn(*shape, dtype=kind).requires_grad_()


def run_linear(weight, bias, steps):
    return [batched_weight_gradients.linear(step, weight, bias, step[..., :1]) for step in steps]


def run_bare(weight, bias, steps):
    return [batched_weight_gradients.linear(step, weight) for step in steps]


def run_products(keys, values, steps):
    return [
        batched_weight_gradients.weighted_sum(batched_weight_gradients.products(step, keys), values) for step in steps
    ]


def run_bent(keys, vectors, steps):
    return [batched_weight_gradients.tanh_scores(step, keys, vectors) for step in steps]


def run_sums(keys, values, steps):
    return [
        batched_weight_gradients.weighted_sum(batched_weight_gradients.tanh_scores(step, keys, None), values)
        for step in steps
    ]


SHARED = {
    run_linear: ((13, K), (13,), (B, K)),
    run_bare: ((13, K), (1,), (B, 1, K)),
    run_products: ((B, H, S, K), (B, H, S, 13), (B, H, 1, K)),
    run_bent: ((B, H, S, K), (H, K), (B, H, 1, K)),
    run_sums: ((B, 1, S, K), (B, 1, S, 13), (B, 1, 2, K)),
}


def slopes(run, first, second, steps):
    """Return the outputs of all steps and all gradients; each step enters the next."""
    found = run(first, second, steps)
    total = sum((one * (t + 1)).square().sum() for t, one in enumerate(found))
    shared = [tensor for tensor in (first, second) if run is not run_bare or tensor is first]
    return found, torch.autograd.grad(total, [*shared, *steps])


@pytest.mark.parametrize("run", SHARED)
def test_gradients_at_once_are_those_of_every_step(run):
    torch.manual_seed(1)
    one, other, each = SHARED[run]
    first, second, steps = drawn(*one), drawn(*other), [drawn(*each) for _ in range(T)]
    plain = slopes(run, first, second, steps)
    with batched_weight_gradients.decoder_loop(T, first, second):
        fast = slopes(run, first, second, steps)
    torch.testing.assert_close(plain, fast)


def test_what_is_not_said_to_stay_is_left_alone():
    keys, query = drawn(B, 1, S, K), drawn(B, 1, 1, K)
    with batched_weight_gradients.decoder_loop(T):
        assert "Step" not in type(batched_weight_gradients.products(query, keys).grad_fn).__name__
        assert "Step" in type(batched_weight_gradients.linear(query, drawn(5, K)).grad_fn).__name__
    with batched_weight_gradients.decoder_loop(T, keys), torch.no_grad():
        assert batched_weight_gradients.products(query, keys).grad_fn is None
    with batched_weight_gradients.decoder_loop(1, keys):
        assert not batched_weight_gradients.in_decoder_loop()


def test_going_back_twice_gives_the_same_again():
    weight, steps = drawn(4, K), [drawn(B, K) for _ in range(T)]
    with batched_weight_gradients.decoder_loop(T):
        total = sum(batched_weight_gradients.linear(step, weight).square().sum() for step in steps)
    once = torch.autograd.grad(total, weight, retain_graph=True)
    assert torch.equal(once[0], torch.autograd.grad(total, weight)[0])


def test_a_loop_that_is_over_is_forgotten():
    weight = drawn(4, K)
    with batched_weight_gradients.decoder_loop(T):
        total = sum(batched_weight_gradients.linear(drawn(B, K), weight).sum() for _ in range(T))
        waiting = weakref.ref(next(iter(batched_weight_gradients._current.get()._shared.values()))._waiting)
    gc.disable()
    try:
        total.backward()
        del total
        assert waiting() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_a_matrix_that_is_laid_out_multiplies_as_before(bias, added):
    torch.manual_seed(1)
    weight, inputs = torch.randn(256, 192), torch.randn(29, 192)
    assert weight.numel() >= prepacked_matmul.LARGE
    offset, add = (torch.randn(256) if bias else None), (torch.randn(29, 256) if added else None)
    right = inputs @ weight.t() + (offset if bias else 0) + (add if added else 0)
    torch.testing.assert_close(
        prepacked_matmul.Matrix(weight, 29).map(inputs, offset, add), right, rtol=1e-5, atol=1e-4
    )
    there = prepacked_matmul.Matrix(weight.t(), 29)
    torch.testing.assert_close(there.map(inputs @ weight.t()), inputs @ weight.t() @ weight, rtol=1e-5, atol=1e-2)


@pytest.mark.parametrize("added", [False, True])
def test_a_matrix_in_bfloat16_is_as_exact_as_that_is(added):
    torch.manual_seed(1)
    weight, inputs, add = (torch.randn(*shape).bfloat16() for shape in ((256, 192), (29, 192), (29, 256)))
    found = prepacked_matmul.Matrix(weight, 29).map(inputs, None, add.float() if added else None)
    right = inputs.double() @ weight.double().t() + (add.double() if added else 0)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), right, rtol=0.01, atol=0.1)


def test_scores_and_gates_under_autocast_round_their_inputs_alone():
    """What is between them is in float32, as are a memory that goes from step to step and its gradient."""
    torch.manual_seed(2)
    keys, vectors, query = torch.randn(B, 1, S, K), torch.randn(1, K), torch.randn(B, 1, 1, K)
    sums, memory = (torch.randn(B, 4 * K).bfloat16().requires_grad_(), torch.randn(B, K).requires_grad_())
    cell = cells["lstm"](K, K)
    cell.recurrent = lambda hidden, add: add
    with batched_weight_gradients.decoder_loop(2, keys), torch.autocast("cpu", torch.bfloat16):
        scores = batched_weight_gradients.tanh_scores(query, keys.requires_grad_(), vectors)
        after = cell(sums, CellState(memory, memory))
    plain = cell(sums.float(), CellState(memory, memory))
    assert (scores.dtype, after.hidden.dtype, after.memory.dtype) == (torch.float32, torch.bfloat16, torch.float32)
    torch.testing.assert_close(scores, batched_weight_gradients.tanh_scores(query, keys, vectors), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.memory, plain.memory, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(after.hidden.float(), plain.hidden, rtol=0.01, atol=1e-3)
    ours, right = (torch.autograd.grad(one.memory.sum(), (sums, memory)) for one in (after, plain))
    torch.testing.assert_close(ours[1], right[1], rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(ours[0], right[0], rtol=0.01, atol=1e-3)


def test_without_onednn_the_plain_product_is_taken(monkeypatch):
    monkeypatch.setattr(prepacked_matmul, "_has_onednn", lambda kind: False)
    weight, inputs = torch.randn(256, 192), torch.randn(29, 192)
    assert torch.equal(prepacked_matmul.Matrix(weight, 29).map(inputs), inputs @ weight.t())


@pytest.mark.parametrize("kind", cells)
@pytest.mark.parametrize("large", [1.0, 30.0])
def test_gates_by_hand_are_those_of_autograd(kind, large):
    """Of both outputs, at saturated gates too; within a loop they are made by hand."""
    torch.manual_seed(1)
    cell = cells[kind](K, 13).double()
    inputs, hidden = drawn(B, cell.input_size), drawn(B, 13)
    memory = drawn(B, 13) if kind == "lstm" else None

    def found():
        state = CellState(hidden, memory)
        for _ in range(2):
            state = cell(inputs * large, state)
        total = state.hidden.sin().sum() + (0 if state.memory is None else state.memory.cos().sum())
        entered = [tensor for tensor in (inputs, hidden, memory) if tensor is not None]
        learned = [p for name, p in cell.named_parameters() if "_hh" in name]
        return state.hidden, torch.autograd.grad(total, [*entered, *learned])

    plain = found()
    with batched_weight_gradients.decoder_loop(T):
        fast = found()
    torch.testing.assert_close(plain, fast)


def test_dropout_drops_at_its_rate_and_keeps_the_mean():
    torch.manual_seed(1)
    ones = torch.ones(101, 103, 107)
    for rate in (0.1, 0.3, 0.5):
        dropped = Dropout(rate).train()(ones)
        assert (dropped == 0).double().mean().item() == pytest.approx(rate, abs=0.002)
        assert torch.unique(dropped).tolist() == [0.0, pytest.approx(1 / (1 - rate))]
    assert not torch.equal(dropped[0], dropped[1])


def test_what_is_dropped_and_added_is_their_sum():
    dropout, kept, sequence = Dropout(0.4).train(), drawn(B, T, K), drawn(B, T, K)
    torch.manual_seed(1)
    at_once = dropout(sequence, kept)
    torch.manual_seed(1)
    torch.testing.assert_close(at_once, kept + dropout(sequence))
    assert torch.equal(dropout.eval()(sequence, kept), kept + sequence)


def test_padding_is_erased_and_gets_no_gradient():
    mask = from_lengths(torch.tensor([7, 4, 2]))
    states = torch.randn(B, 7, K).masked_fill(~mask[..., None], torch.nan).requires_grad_()
    real = erase(states, mask)
    assert torch.equal(real, states.masked_fill(~mask[..., None], 0.0))
    real.sum().backward()
    assert torch.equal(states.grad, mask[..., None].expand_as(states).float())
    assert erase(states, torch.ones_like(mask)) is states


def test_memory_can_be_kept():
    assert keep_memory() in (True, False)
