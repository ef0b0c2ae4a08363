"""Cells against torch's own, and one call against many steps. Axes are distinct primes."""

import pytest
import torch
from torch import nn

from regard.layers.rnn_cells import GRU, LSTM, CellState, cells

B, T, X, D = 3, 5, 7, 11
REFERENCES = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}
SEQUENCES = {"gru": nn.GRU, "lstm": nn.LSTM}


@pytest.fixture(params=[*cells])
def cell(request):
    torch.manual_seed(1)
    made = cells[request.param](X, D).double()
    made.name = request.param
    return made


@pytest.fixture
def sequence():
    return torch.randn(B, T, X, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def first_state(cell, batch=B):
    generator = torch.Generator().manual_seed(3)
    hidden, memory = torch.randn(2, batch, D, dtype=torch.float64, generator=generator)
    return CellState(hidden, memory if isinstance(cell, LSTM) else None)


def copied(cell, reference, suffix=""):
    """Give torch's cell the weights of ours."""
    with torch.no_grad():
        getattr(reference, f"weight_ih{suffix}").copy_(cell.network.weight_ih_l0)
        getattr(reference, f"weight_hh{suffix}").copy_(cell.network.weight_hh_l0)
        getattr(reference, f"bias_ih{suffix}").copy_(cell.network.bias_ih_l0)
        getattr(reference, f"bias_hh{suffix}").copy_(cell.network.bias_hh_l0)
    return reference


def steps(cell, sequence, state):
    found = []
    for t in range(sequence.shape[1]):
        state = cell(cell.inputs(sequence[:, t]), state)
        found.append(state.hidden)
    return torch.stack(found, dim=1), state


def test_all_cells_have_a_reference():
    assert {*cells} == {*REFERENCES}


def test_a_step_is_torch_s(cell, sequence):
    reference = copied(cell, REFERENCES[cell.name](X, D).double())
    state = first_state(cell)
    after = cell(cell.inputs(sequence[:, 0]), state)
    expected = reference(sequence[:, 0], state.hidden if state.memory is None else (state.hidden, state.memory))
    if state.memory is None:
        torch.testing.assert_close(after.hidden, expected)
        assert after.memory is None
    else:
        torch.testing.assert_close((after.hidden, after.memory), expected)


def test_a_step_has_torch_s_gradients(cell, sequence):
    reference = copied(cell, REFERENCES[cell.name](X, D).double())
    state = first_state(cell)
    cell(cell.inputs(sequence[:, 0]), state).hidden.square().sum().backward()
    expected = reference(sequence[:, 0], state.hidden if state.memory is None else (state.hidden, state.memory))
    (expected if state.memory is None else expected[0]).square().sum().backward()
    torch.testing.assert_close(cell.network.weight_ih_l0.grad, reference.weight_ih.grad)
    torch.testing.assert_close(cell.network.weight_hh_l0.grad, reference.weight_hh.grad)
    torch.testing.assert_close(cell.network.bias_ih_l0.grad, reference.bias_ih.grad)
    torch.testing.assert_close(cell.network.bias_hh_l0.grad, reference.bias_hh.grad)


def test_running_is_stepping(cell, sequence):
    state = first_state(cell)
    torch.testing.assert_close(cell.run(sequence, state), steps(cell, sequence, state)[0])


def test_running_is_torch_s_layer(cell, sequence):
    layer = copied(cell, SEQUENCES[cell.name](X, D, batch_first=True).double(), "_l0")
    state = first_state(cell)
    first = state.hidden[None] if state.memory is None else (state.hidden[None], state.memory[None])
    torch.testing.assert_close(cell.run(sequence, state), layer(sequence, first)[0])


def test_running_and_stepping_have_the_same_gradients(cell, sequence):
    state = first_state(cell)
    cell.run(sequence, state).square().sum().backward()
    run = {name: parameter.grad.clone() for name, parameter in cell.named_parameters()}
    cell.zero_grad()
    steps(cell, sequence, state)[0].square().sum().backward()
    for name, parameter in cell.named_parameters():
        torch.testing.assert_close(parameter.grad, run[name])


def test_what_else_enters_is_added_to_the_inputs(cell, sequence):
    """Inputs of one wide layer are the sum of those of its parts: a context may be computed elsewhere and added."""
    wide = type(cell)(X + 2, D).double()
    context = nn.Linear(2, wide.input_size, bias=False).double()
    with torch.no_grad():
        wide.network.weight_ih_l0.copy_(torch.cat([cell.network.weight_ih_l0, context.weight], dim=1))
        wide.network.bias_ih_l0.copy_(cell.network.bias_ih_l0)
        wide.network.weight_hh_l0.copy_(cell.network.weight_hh_l0)
        wide.network.bias_hh_l0.copy_(cell.network.bias_hh_l0)
    extra = torch.randn(B, 2, dtype=torch.float64)
    state = first_state(cell)
    apart = cell(cell.inputs(sequence[:, 0]) + context(extra), state)
    together = wide(wide.inputs(torch.cat([sequence[:, 0], extra], dim=1)), state)
    torch.testing.assert_close(apart.hidden, together.hidden)


def test_rows_know_nothing_of_each_other(cell, sequence):
    state = first_state(cell)
    together = cell.run(sequence, state)
    row = CellState(state.hidden[1:2], None if state.memory is None else state.memory[1:2])
    torch.testing.assert_close(together[1:2], cell.run(sequence[1:2], row))


def test_a_state_is_not_changed_in_place(cell, sequence):
    state = first_state(cell)
    kept = CellState(*(part if part is None else part.clone() for part in state))
    steps(cell, sequence, state)
    cell.run(sequence, state)
    assert torch.equal(state.hidden, kept.hidden)
    assert state.memory is None or torch.equal(state.memory, kept.memory)


def test_gates_do_what_they_are_named_after():
    """A GRU that keeps all stays as it is; an LSTM whose forget gate is open and input gate shut keeps its memory."""
    gru, lstm = GRU(X, D), LSTM(X, D)
    with torch.no_grad():
        for parameter in (*gru.parameters(), *lstm.parameters()):
            parameter.zero_()
        gru.network.bias_ih_l0[D : 2 * D] = 50.0
        lstm.network.bias_ih_l0[:D] = -50.0
        lstm.network.bias_ih_l0[D : 2 * D] = 50.0
    hidden, memory = torch.randn(2, B, D)
    x = torch.randn(B, X)
    torch.testing.assert_close(gru(gru.inputs(x), CellState(hidden)).hidden, hidden)
    torch.testing.assert_close(lstm(lstm.inputs(x), CellState(hidden, memory)).memory, memory)
