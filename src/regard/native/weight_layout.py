"""Lay out the weights of modules as numbers and arrays, in the order in which the library reads them.

Each function here has a C++ counterpart that reads what it writes (`Recurrent`, `Transformer`, `Look`,
`RecurrentEncoder`, `TransformerEncoder`).
"""

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from regard.attention import Attention
from regard.attention.focus import Softmax
from regard.attention.reach import Everywhere
from regard.attention.score import Additive, Concat, Dot, General, ScaledDot
from regard.layers.embedding import Embedding
from regard.layers.readout import Bare, Maxout, Readout, Tanh
from regard.layers.rnn_cells import LSTM, Cell
from regard.models.bahdanau import BahdanauDecoder
from regard.models.conditional_decoder import ConditionalDecoder
from regard.models.luong import LuongDecoder
from regard.models.protocol import Decoder, Encoder
from regard.models.recurrent_decoder import RecurrentDecoder
from regard.models.recurrent_encoder import RecurrentEncoder
from regard.models.transformer import TransformerDecoder, TransformerEncoder
from regard.models.transformer_layer import ACTIVATIONS, DecoderLayer, EncoderLayer, FeedForward, Residual
from regard.native.library import PRECISIONS
from regard.shapes import Tensor

RECURRENT, TRANSFORMER = 0, 1
ORDERS: dict[type[Decoder[Any]], int] = {LuongDecoder: 0, BahdanauDecoder: 1, ConditionalDecoder: 2}
READOUTS: dict[type[Readout], int] = {Tanh: 1, Maxout: 2}


class UnknownError(Exception):
    """The library does not support some part of a model: that part runs in Python."""


class Plan:
    """The layout of a part of a model."""

    kind: int

    def __init__(self, *parts: nn.Module) -> None:
        self.numbers: list[int] = []
        self.arrays: list[Tensor | None] = []
        weights = [weight for part in parts for weight in part.parameters()]
        if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
            raise UnknownError("weights are not float32 on the CPU")

    def make(self, call: Callable[..., int | None], precision: str) -> int:
        """Pass it to a call of the library, which copies it; return what the library built."""
        numbers = np.array(self.numbers, np.int64)
        arrays = np.array([0 if part is None else part.data_ptr() for part in self.arrays], np.uint64)
        made = call(self.kind, numbers.ctypes.data, arrays.ctypes.data, PRECISIONS.index(precision))
        if not made:
            raise MemoryError("There is no room for a second copy of the model's weights.")
        return made

    def number(self, *numbers: int) -> None:
        """Write integers."""
        self.numbers += map(int, numbers)

    def real(self, number: float) -> None:
        """Write a float."""
        self.arrays.append(torch.tensor([number], dtype=torch.float32, device="cpu"))

    def values(self, values: Tensor | None) -> None:
        """Write an array and its size; None for an empty one."""
        self.number(0 if values is None else values.numel())
        self.arrays.append(None if values is None else values.detach().contiguous())

    def linear(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None] = ()) -> None:
        """Write a linear map of concatenated inputs; biases are summed. Without weights, no map."""
        weight = torch.cat([part.detach() for part in weights], dim=1) if weights else None
        self.number(*(weight.shape if weight is not None else (0, 0)))
        found = [bias.detach() for bias in biases if bias is not None]
        self.arrays.append(weight)
        self.arrays.append(torch.stack(found).sum(dim=0) if found else None)

    def module(self, linear: nn.Linear | None) -> None:
        """Write a torch linear map."""
        self.linear([] if linear is None else [linear.weight], [] if linear is None else [linear.bias])

    def embedding(self, embedding: Embedding, positions: int) -> None:
        """Write an embedding table, with `positions` sinusoidal positions if they are not learned."""
        self.number(embedding.embedding_dim)
        self.real(embedding.scale)
        self.values(embedding.weight)
        if embedding.position is None:
            self.values(None)
        else:
            nothing = embedding.weight.new_zeros(1, embedding.longest or positions, embedding.embedding_dim)
            self.values(embedding.position.embed(nothing, 0))

    def norm(self, norm: nn.LayerNorm) -> None:
        """Write a layer norm."""
        self.values(norm.weight)
        self.values(norm.bias)
        self.real(norm.eps)

    def shape(self, width: int, layer: EncoderLayer | DecoderLayer, before: bool) -> None:
        """Write what all layers of a Transformer share."""
        own = plain(layer.self_attention)
        if own.heads is None or type(own.score) is not ScaledDot:
            raise UnknownError("self-attention that is not scaled-dot with heads")
        self.number(width, own.heads.heads, own.heads.groups, own.score.key_width)
        self.number(before, list(ACTIVATIONS.values()).index(layer.feed_forward.activation))

    def look_at_itself(self, around: Residual, attention: Attention) -> None:
        """Write the self-attention of a Transformer layer."""
        own = plain(attention)
        assert own.heads is not None
        if own.temperature != 1.0 or type(own.reach) is not Everywhere or own.heads.W_k is None:
            raise UnknownError("self-attention with a limited reach or a temperature")
        self.norm(around.norm)
        maps = (own.heads.W_q, own.heads.W_k, own.heads.W_v)
        self.linear([torch.cat([part.weight for part in maps])], [torch.cat([part.bias for part in maps])])
        self.module(own.heads.W_o)

    def network(self, around: Residual, network: FeedForward) -> None:
        """Write the feed-forward network of a Transformer layer."""
        self.norm(around.norm)
        self.module(network.W_1)
        self.module(network.W_2)


class EncoderPlan(Plan):
    """The layout of an encoder with its embedding."""

    def __init__(self, encoder: Encoder, embedding: Embedding, positions: int) -> None:
        """`positions` is the maximum source length."""
        super().__init__(encoder, embedding)
        if type(encoder) is TransformerEncoder:
            self.kind = TRANSFORMER
            self._transformer(encoder, embedding, positions)
        elif type(encoder) is RecurrentEncoder:
            self.kind = RECURRENT
            self._recurrent(encoder, embedding, positions)
        else:
            raise UnknownError(type(encoder).__name__)

    def _recurrent(self, encoder: RecurrentEncoder, embedding: Embedding, positions: int) -> None:
        layers = [cast(nn.LSTM | nn.GRU, layer) for layer in encoder.layers]
        lowest = layers[0]
        lstm, ways = isinstance(lowest, nn.LSTM), 2 if lowest.bidirectional else 1
        self.number(lstm, encoder.residual, lowest.hidden_size, ways)
        self.embedding(embedding, positions)
        self.number(len(layers))
        for layer in layers:
            for inputs, recurrent, input_bias, recurrent_bias in layer.all_weights:
                # A GRU's new gate keeps its recurrent part separate, with its bias; an LSTM's gates are summed.
                self.linear([inputs], [input_bias, *([recurrent_bias] if lstm else [])])
                self.linear([recurrent], [] if lstm else [recurrent_bias])

    def _transformer(self, encoder: TransformerEncoder, embedding: Embedding, positions: int) -> None:
        layers = [cast(EncoderLayer, layer) for layer in encoder.layers]
        self.shape(encoder.state_width, layers[0], encoder.norm is not None)
        self.embedding(embedding, positions)
        self.number(len(layers))
        for layer in layers:
            if layer.self_attention.reach.causal:
                raise UnknownError("an encoder with causal or limited self-attention")
            self.look_at_itself(layer.around_look, layer.self_attention)
            self.network(layer.around_network, layer.feed_forward)
        if encoder.norm is not None:
            self.norm(encoder.norm)


class DecoderPlan(Plan):
    """The layout of a decoder."""

    def __init__(self, decoder: Decoder[Any], positions: int) -> None:
        """`positions` is the maximum target length."""
        super().__init__(decoder)
        self.looks = (0, 1)
        """Layers and heads of the attention to the source."""
        if type(decoder) is TransformerDecoder:
            self.kind = TRANSFORMER
            self._transformer(decoder, positions)
        elif isinstance(decoder, RecurrentDecoder) and type(decoder) in ORDERS:
            self.kind = RECURRENT
            self._recurrent(decoder, positions)
        else:
            raise UnknownError(type(decoder).__name__)

    # -- recurrent decoders -------------------------------------------------------------------------------------------

    def _recurrent(self, decoder: RecurrentDecoder, positions: int) -> None:
        if type(decoder.readout) not in (Bare, *READOUTS):
            raise UnknownError(type(decoder.readout).__name__)
        attention, order = decoder.attention, ORDERS[type(decoder)]
        fed = decoder.fed_inputs if isinstance(decoder, LuongDecoder) else None
        lowest = decoder.layers[0]
        self.number(order, isinstance(lowest, LSTM), fed is not None, decoder.residual, attention is not None)
        fixed = 0 if isinstance(decoder, LuongDecoder) else decoder.context_width
        self.number(lowest.network.hidden_size, fixed, READOUTS.get(type(decoder.readout), 0))
        self.embedding(decoder.embedding, positions)
        self.number(len(decoder.layers))
        context = decoder.context_inputs if isinstance(decoder, BahdanauDecoder) else None
        for depth, layer in enumerate(decoder.layers):
            beside = [part.weight for part in (fed, context) if part is not None and depth == 0]
            self._cell(layer, beside)
        if isinstance(decoder, ConditionalDecoder):
            self._cell(decoder.second, [])
        if attention is not None:
            self._look(attention)
        if isinstance(decoder.readout, Tanh):
            self.module(decoder.readout.W_c)
        elif isinstance(decoder.readout, Maxout):
            self.module(decoder.readout.hidden)
        self.module(decoder.output)

    def _cell(self, cell: Cell, beside: Sequence[Tensor]) -> None:
        """Write a cell, given the projections of its further inputs."""
        inputs, recurrent, input_bias, recurrent_bias = cell.network.all_weights[0]
        if isinstance(cell, LSTM):
            self.linear([inputs, *beside, recurrent], [input_bias, recurrent_bias])
        else:
            self.linear([inputs, *beside], [input_bias])
            self.linear([recurrent], [recurrent_bias])

    # -- attention
    # --------------------------------------------------------------------------------------------------------

    def _look(self, attention: object) -> None:
        """Write the attention to the source."""
        attention = plain(attention)
        if type(attention.reach) is not Everywhere or attention.reach.causal:
            raise UnknownError(type(attention.reach).__name__)
        heads, score = attention.heads, attention.score
        several = 1 if heads is None else heads.heads
        groups = 1 if heads is None else heads.groups
        value_width = attention.context_width if heads is None else heads.W_v.out_features // groups
        self.looks = (self.looks[0] + 1, several)
        self.number(several, groups, score.key_width, value_width)
        hidden: list[Tensor] = []
        vector, scale = None, 1.0 / attention.temperature
        if type(score) is ScaledDot:
            scale *= float(score.key_width) ** -0.5
        elif type(score) in (Additive, Concat) and several == 1:
            assert isinstance(score, Additive | Concat)
            vector = score.v_a.weight * scale
            hidden = [score.W_a.weight]
            if isinstance(score, Concat):
                hidden = [score.W_a.weight[:, : score.query_width]]
        elif type(score) not in (Dot, General):
            raise UnknownError(f"{type(score).__name__} with {several} heads")
        self.real(scale)
        self.values(vector)
        self.module(None if heads is None else heads.W_q)
        self.linear(hidden)
        self.module(None if heads is None else heads.W_o)

    # -- the Transformer ----------------------------------------------------------------------------------------------

    def _transformer(self, decoder: TransformerDecoder, positions: int) -> None:
        first = decoder.layers[0]
        reads = first.attention is not None
        self.shape(decoder.embedding.embedding_dim, first, first.around_past.before)
        self.number(reads)
        self.embedding(decoder.embedding, positions)
        self.number(len(decoder.layers))
        for layer in decoder.layers:
            self.look_at_itself(layer.around_past, layer.self_attention)
            if reads:
                self.norm(layer.around_source.norm)
                self._look(layer.attention)
            self.network(layer.around_network, layer.feed_forward)
        if decoder.norm is not None:
            self.norm(decoder.norm)
        self.module(decoder.output)


def plain(attention: object) -> Attention:
    """Return the attention if it is a plain softmax of scores."""
    if type(attention) is not Attention or type(attention.focus) is not Softmax:
        raise UnknownError(type(getattr(attention, "focus", attention)).__name__)
    extras = (attention.position, attention.coverage, attention.log_temperature)
    if any(part is not None for part in extras) or attention.pruned:
        raise UnknownError("positions, coverage, learned temperatures or pruned heads")
    return attention
