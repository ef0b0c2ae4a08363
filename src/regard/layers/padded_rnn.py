"""Recurrent networks over padded rows as one operation, for graph export.

Packed sequences, torch's own way, depend on values that a graph does not have, and torch would unroll the network for
the number of steps seen at export. ONNX has operators that take the length of each row; `export/onnx_rnn.py` converts
this operation to one of them.
"""

from typing import cast

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.shapes import Float, Int, Tensor

KINDS = {"lstm": nn.LSTM, "gru": nn.GRU}


def read_padded(
    network: nn.GRU | nn.LSTM,
    sequence: Float[Tensor, "B S I"],
    lengths: Int[Tensor, " B"] | None = None,
    state: Float[Tensor, "R B D"] | tuple[Tensor, ...] | None = None,
) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
    """Run a one-layer network over rows of these lengths (None: all full); return its outputs and final state."""
    rows, steps = sequence.shape[:2]
    directions = 2 if network.bidirectional else 1
    kinds = 2 if isinstance(network, nn.LSTM) else 1
    if state is None:
        first = sequence.new_zeros(kinds, directions, rows, network.hidden_size)
    else:
        first = torch.stack(state if isinstance(state, tuple) else (state,))
    if lengths is None:
        lengths = torch.full((rows,), steps, dtype=torch.long, device=sequence.device)
    weights = [weight for direction in network.all_weights for weight in direction]
    kind = "lstm" if isinstance(network, nn.LSTM) else "gru"
    outputs, finals = recurrent(sequence, lengths, first, weights, kind)
    return outputs, (finals[0], finals[1]) if kinds == 2 else finals[0]


@torch.library.custom_op("regard::recurrent", mutates_args=())
def recurrent(
    sequence: torch.Tensor, lengths: torch.Tensor, first: torch.Tensor, weights: list[torch.Tensor], kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Run over the real part of each row; return outputs, zero after it, and final states, hidden then memory."""
    directions = first.shape[1]
    network = KINDS[kind](sequence.shape[2], first.shape[3], batch_first=True, bidirectional=directions == 2)
    named = [weight for direction in network.all_weights for weight in direction]
    with torch.no_grad():
        for own, given in zip(named, weights, strict=True):
            own.copy_(given)
        packed = pack_padded_sequence(sequence, lengths.cpu(), batch_first=True, enforce_sorted=False)
        begun = (first[0].clone(), first[1].clone()) if kind == "lstm" else first[0].clone()
        outputs, final = network(packed, begun)
    padded = pad_packed_sequence(outputs, batch_first=True, total_length=sequence.shape[1])[0]
    return padded, torch.stack(cast(tuple[torch.Tensor, ...], final) if kind == "lstm" else (final,))


@recurrent.register_fake
def _shapes(
    sequence: torch.Tensor, lengths: torch.Tensor, first: torch.Tensor, weights: list[torch.Tensor], kind: str
) -> tuple[torch.Tensor, torch.Tensor]:
    width = first.shape[1] * first.shape[3]
    return sequence.new_empty(sequence.shape[0], sequence.shape[1], width), torch.empty_like(first)
