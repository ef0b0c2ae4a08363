"""Recurrent cells whose input projections can be computed for all steps at once, outside the recurrence."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from regard.batched_weight_gradients import linear
from regard.layers.rnn_gates import GRUGates, LSTMGates, by_hand, by_kernels, gru_step, lstm_step
from regard.registry import Registry
from regard.shapes import Float, Tensor


class CellState(NamedTuple):
    """What a cell carries from step to step: its hidden state and, for an LSTM, its memory."""

    hidden: Float[Tensor, "B D"]
    memory: Float[Tensor, "B D"] | None = None


class Cell(nn.Module, ABC):
    """One layer of a recurrent network.

    `cell(cell.inputs(x), state)` is one step. Whatever else enters a step (a context, input feeding) is added to
    `inputs(x)`, which therefore can be computed outside the loop over the steps. The weights are those of torch's own
    network, which runs all steps in one call where nothing else enters.
    """

    gates: ClassVar[int]
    networks: ClassVar[type[nn.GRU] | type[nn.LSTM]]
    """Torch's network with such cells."""

    def __init__(self, input_width: int, width: int) -> None:
        super().__init__()
        self.network = self.networks(input_width, width, batch_first=True)
        self.input_size = self.gates * width
        """Width of what `inputs` returns."""

    def inputs(self, sequence: Float[Tensor, "B *T I"]) -> Float[Tensor, "B *T G"]:
        """Compute the input projections of all gates."""
        weight, _, bias, _ = self.network.all_weights[0]
        return linear(sequence, weight, bias)

    def recurrent(self, hidden: Float[Tensor, "B D"], add: Float[Tensor, "B G"] | None = None) -> Float[Tensor, "B G"]:
        """Compute the recurrent projections of all gates, plus `add` if given."""
        _, weight, _, bias = self.network.all_weights[0]
        return linear(hidden, weight, bias, add)

    @abstractmethod
    def forward(self, inputs: Float[Tensor, "B G"], state: CellState) -> CellState:
        """Run one step."""

    @abstractmethod
    def run(self, sequence: Float[Tensor, "B T I"], state: CellState) -> Float[Tensor, "B T D"]:
        """Run all steps in one call; return the hidden state of each."""


def run_network(network: nn.GRU | nn.LSTM, sequence: Any, state: Any = None) -> Any:
    """Run torch's own network over a sequence, packed or not.

    On a GPU, autocast would run it in float16 even if bfloat16 was asked for, and there is no loss scaling here: so it
    runs in float32 there.
    """
    if torch.compiler.is_exporting():
        from regard.layers.padded_rnn import read_padded

        return read_padded(network, sequence, state=state)
    if not (sequence.data.is_cuda and torch.is_autocast_enabled("cuda")):
        return network(sequence, state)
    with torch.autocast("cuda", enabled=False):
        whole = tuple(part.float() for part in state) if isinstance(state, tuple) else state
        return network(sequence.float(), whole.float() if isinstance(whole, Tensor) else whole)


cells: Registry[type[Cell]] = Registry("recurrent cell", "cells")


@cells.register("gru")
class GRU(Cell):
    r"""Gated recurrent unit (Cho et al. 2014, equations 5 to 8).

    .. math::
        r = \sigma(W_r x + U_r h) \quad z = \sigma(W_z x + U_z h) \quad
        \tilde h = \tanh(W x + r \odot (U h)) \quad h' = z \odot h + (1 - z) \odot \tilde h

    Differs from the paper: the reset gate acts on `U h`, not on `h` (as in cuDNN and torch), and there are biases.
    """

    gates = 3
    networks = nn.GRU

    def forward(self, inputs: Float[Tensor, "B G"], state: CellState) -> CellState:
        """Run one step."""
        recurrent, width = self.recurrent(state.hidden), state.hidden.shape[-1]
        if by_kernels(inputs, recurrent, state.hidden):
            return CellState(gru_step(inputs, recurrent, state.hidden))
        if by_hand(recurrent):
            return CellState(GRUGates.apply(inputs, recurrent, state.hidden))  # type: ignore[no-untyped-call]
        # Split, not sliced: the backward of a split is one concatenation, that of slices is three kernels.
        input_rz, input_new = torch.split(inputs, [2 * width, width], dim=-1)
        hidden_rz, hidden_new = torch.split(recurrent, [2 * width, width], dim=-1)
        reset, keep = torch.sigmoid(input_rz + hidden_rz).chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(input_new, reset, hidden_new))
        # Under autocast the gates are in half precision, while the carried state may be in float32.
        return CellState(torch.lerp(new.to(state.hidden.dtype), state.hidden, keep.to(state.hidden.dtype)))

    def run(self, sequence: Float[Tensor, "B T I"], state: CellState) -> Float[Tensor, "B T D"]:
        """Run all steps in one call."""
        outputs: Tensor = run_network(self.network, sequence, state.hidden[None].contiguous())[0]
        return outputs


@cells.register("lstm")
class LSTM(Cell):
    r"""Long short-term memory with a forget gate (Hochreiter & Schmidhuber 1997; Gers et al. 2000).

    .. math::
        i, f, o = \sigma(W_{i,f,o}\, x + U_{i,f,o}\, h) \quad g = \tanh(W_g x + U_g h) \quad
        c' = f \odot c + i \odot g \quad h' = o \odot \tanh(c')

    Differs from the variant of Sutskever et al. 2014 (Graves 2013): no peephole connections.
    """

    gates = 4
    networks = nn.LSTM

    def forward(
        self, inputs: Float[Tensor, "B G"], state: CellState, transferred: Float[Tensor, "B D"] | None = None
    ) -> CellState:
        """Run one step; `transferred` is added to the memory, bypassing the gates (Cheng et al. 2016)."""
        assert state.memory is not None
        width = state.hidden.shape[-1]
        if transferred is None and by_kernels(inputs, state.memory):
            return CellState(*lstm_step(inputs, self.recurrent(state.hidden), state.memory))
        sums = self.recurrent(state.hidden, inputs)
        if transferred is None and by_hand(sums):
            return CellState(*LSTMGates.apply(sums, state.memory))  # type: ignore[no-untyped-call]
        gates, new, emit = torch.split(sums, [2 * width, width, width], dim=-1)
        admit, forget = torch.sigmoid(gates).chunk(2, dim=-1)
        memory = torch.addcmul(forget * state.memory, admit, torch.tanh(new))
        memory = memory if transferred is None else memory + transferred
        return CellState(torch.sigmoid(emit) * torch.tanh(memory), memory)

    def run(self, sequence: Float[Tensor, "B T I"], state: CellState) -> Float[Tensor, "B T D"]:
        """Run all steps in one call."""
        assert state.memory is not None
        first = (state.hidden[None].contiguous(), state.memory[None].contiguous())
        outputs: Tensor = run_network(self.network, sequence, first)[0]
        return outputs
