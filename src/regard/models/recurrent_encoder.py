"""The recurrent encoder, with one or two directions and any number of layers."""

from typing import Any, ClassVar, cast

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.config import EncoderConfig, ModelConfig
from regard.layers.dropout import Dropout
from regard.layers.padded_rnn import read_padded
from regard.layers.rnn_cells import cells, run_network
from regard.models.protocol import Encoded, Encoder, Summary
from regard.models.registries import encoders
from regard.shapes import Bool, Float, Int, Tensor


@encoders.register("recurrent")
class RecurrentEncoder(Encoder):
    r"""States of a recurrent network over the source; with two directions, `h_j = [→h_j; ←h_j]` (Bahdanau et al. 2014).

    Padding is never read: states and final states of a row depend on its real positions alone. With `residual`, the
    input of a layer is added to its output from the second layer on (Wu et al. 2016, section 3.1).
    """

    asks_lengths = True
    residual_from: ClassVar[int] = 1
    """The first layer, counted from 0, whose input may be added to its output."""

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__()
        config = model.encoder
        directions = self._directions(config, 0)
        self.state_width = config.width * directions
        self.summary = Summary(config.cell, config.layers, config.width, directions)
        self.residual = config.residual
        self.dropout = dropout
        self.layers = nn.ModuleList(
            cells[config.cell].networks(
                model.embedding if depth == 0 else config.width * self._directions(config, depth - 1),
                config.width,
                batch_first=True,
                bidirectional=self._directions(config, depth) == 2,
            )
            for depth in range(config.layers)
        )

    @staticmethod
    def _directions(config: EncoderConfig, depth: int) -> int:
        """Return the number of directions of a layer."""
        return 2 if config.bidirectional else 1

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Encode the embedded source."""
        lengths = mask.sum(dim=1).cpu() if lengths is None else lengths
        states, finals = embedded, []
        for depth, layer in enumerate(self.layers):
            entering = states if depth == 0 else self.dropout(states)
            states, final = read(cast(nn.LSTM, layer), entering, lengths)
            if self.residual and depth >= self.residual_from:
                states = states + entering
            finals.append(final if isinstance(final, tuple) else (final,))
        # For an LSTM `finals` holds (hidden, memory) of each layer: all hidden states first, then all memories.
        summary = [self._final(part) for kind in zip(*finals, strict=True) for part in kind]
        return Encoded(states, mask, torch.stack(summary, dim=1))

    def _final(self, final: Float[Tensor, "R B D"]) -> Float[Tensor, "B E"]:
        """Concatenate the final states of a layer's directions."""
        return final.transpose(0, 1).flatten(1)


def read(network: nn.GRU | nn.LSTM, states: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> tuple[Tensor, Any]:
    """Run a network over rows of these lengths; return its outputs and its final states."""
    if torch.compiler.is_exporting():
        return read_padded(network, states, lengths)
    outputs, final = run_network(network, pack(states, lengths))
    return unpack(outputs, states.shape[1]), final


def pack(states: Float[Tensor, "B S D"], lengths: Int[Tensor, " B"]) -> PackedSequence:
    """Pack rows whose lengths are on the host, as torch does but without a host sync."""
    ordered, order = lengths.sort(descending=True)
    if states.is_cuda:
        order = order.pin_memory().to(states.device, non_blocking=True)
    packed = pack_padded_sequence(states.index_select(0, order), ordered, batch_first=True)
    return PackedSequence(packed.data, packed.batch_sizes, order)


def unpack(outputs: PackedSequence, longest: int) -> Float[Tensor, "B S D"]:
    """Undo `pack`, as torch does but without a host sync."""
    ordered = PackedSequence(outputs.data, outputs.batch_sizes)
    padded = pad_packed_sequence(ordered, batch_first=True, total_length=longest)[0]
    assert outputs.unsorted_indices is not None
    return padded.index_select(0, outputs.unsorted_indices)
