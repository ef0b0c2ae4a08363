"""The LSTMN (long short-term memory-network): an LSTM that attends to all its earlier states at every step."""

from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import nn

from regard.attention import Attention, Carry, Extras, Memory
from regard.attention.attention import add_extras
from regard.config import ModelConfig
from regard.layers.dropout import Dropout
from regard.layers.readout import readouts
from regard.layers.rnn_cells import LSTM, CellState
from regard.masks import reversal
from regard.models.protocol import Encoded, Encoder, Summary, TeacherForced
from regard.models.recurrent_decoder import Past, RecurrentDecoder, RecurrentState, join_steps, scaled
from regard.models.registries import DecoderParts, decoders, encoders
from regard.models.tape_attention import TapeAttention
from regard.shapes import Bool, Float, Int, Tensor

FUSIONS = ("deep", "shallow")


class Stepped(NamedTuple):
    """Result of a step of the cell."""

    state: CellState
    past: Past
    extras: Extras


class LSTMNCell(nn.Module):
    r"""One layer of the network (Cheng et al. 2016, section 3.2).

    .. math::
        a^t_i = v^\top \tanh(W_h h_i + W_x x_t + W_{\tilde h} \tilde h_{t-1}) \qquad
        s^t = \mathrm{softmax}(a^t) \qquad [\tilde h_t; \tilde c_t] = \sum_{i=1}^{t-1} s^t_i [h_i; c_i]

        i_t, f_t, o_t, \hat c_t = (\sigma, \sigma, \sigma, \tanh)(W [\tilde h_t, x_t]) \qquad
        c_t = f_t \odot \tilde c_t + i_t \odot \hat c_t \qquad h_t = o_t \odot \tanh(c_t)

    That is an LSTM whose previous state is a weighted sum of all its earlier states, which are kept on two tapes.
    `model.self_attention` configures the attention; with the additive score it is the paper's. The tapes are empty
    before the first step, and the sum is zero there.
    Differs from the paper: the gates have biases.
    """

    def __init__(self, model: ModelConfig, input_width: int, width: int, layer: int) -> None:
        super().__init__()
        self.cell = LSTM(input_width, width)
        self.look = TapeAttention(
            model.self_attention, input_width + width, width, itself=True, position=model.positions, layer=layer
        )
        self.width = width

    def begin(self, like: Float[Tensor, "B _"], state: CellState | None = None) -> Past:
        """Return empty tapes, or tapes with one state."""
        memory = None
        if state is not None:
            assert state.memory is not None
            memory = self.look.extend(None, state.hidden, state.memory)
        return Past(memory, like.new_zeros(like.shape[0], self.width))

    def forward(
        self,
        x: Float[Tensor, "B I"],
        entering: Float[Tensor, "B G"],
        past: Past,
        transferred: Float[Tensor, "B D"] | None = None,
    ) -> Stepped:
        """Run one step on an input and its gate projections, and append the new state to the tapes."""
        hidden = memory = past.seen.new_zeros(x.shape[0], self.width)
        extras = Extras()
        if past.memory is not None:
            query = torch.cat([x, past.seen], dim=-1)[:, None]
            attended = self.look(query, past.memory, Carry(past.memory.mask.shape[1] - 1), False)
            hidden, memory = attended.context[:, 0].chunk(2, dim=-1)
            extras = attended.extras
        state: CellState = self.cell(entering, CellState(hidden, memory), transferred)
        assert state.memory is not None
        return Stepped(state, Past(self.look.extend(past.memory, state.hidden, state.memory), hidden), extras)


@encoders.register("lstmn")
class LSTMNEncoder(Encoder):
    """An encoder that links each word to the words before it (Cheng et al. 2016, section 3.2).

    It returns both tapes of its topmost layer. A further layer reads the hidden states of the one below. Padding comes
    after all real tokens, so no real position attends to it.
    Differs from the paper: it may be bidirectional, with tapes for each direction, concatenated.
    """

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__()
        config = model.encoder
        directions = 2 if config.bidirectional else 1
        self.state_width = config.width * directions
        self.summary = Summary("lstm", config.layers, config.width, directions)
        self.residual = config.residual
        self.dropout = dropout
        self.layers = nn.ModuleList(
            nn.ModuleList(
                LSTMNCell(model, self.state_width if depth else model.embedding, config.width, depth)
                for _ in range(directions)
            )
            for depth in range(config.layers)
        )

    def forward(
        self, embedded: Float[Tensor, "B S E"], mask: Bool[Tensor, "B S"], lengths: Int[Tensor, " B"] | None = None
    ) -> Encoded:
        """Encode the embedded source."""
        order = reversal(mask)[..., None]
        last = (mask.sum(dim=1) - 1).clamp(min=0)[:, None, None]
        below, finals = embedded.masked_fill(~mask[..., None], 0.0), []
        tapes = (below, below)
        for depth, directions in enumerate(self.layers):
            entering = below if depth == 0 else self.dropout(below)
            read = []
            for number, cell in enumerate(cast(nn.ModuleList, directions)):
                turned = entering.gather(1, order.expand_as(entering)) if number else entering
                both = self._read(cast(LSTMNCell, cell), turned)
                final = [tape.gather(1, last.expand(-1, 1, tape.shape[2]))[:, 0] for tape in both]
                read.append(([tape.gather(1, order.expand_as(tape)) if number else tape for tape in both], final))
            hidden, memories = (torch.cat([tape[kind] for tape, _ in read], dim=-1) for kind in (0, 1))
            finals.append([torch.cat([final[kind] for _, final in read], dim=-1) for kind in (0, 1)])
            tapes = (hidden, memories)
            below = hidden + entering if self.residual and depth else hidden
        padding = ~mask[..., None]
        summary = torch.stack([final[kind] for kind in (0, 1) for final in finals], dim=1)
        return Encoded(below.masked_fill(padding, 0.0), mask, summary, tapes[1].masked_fill(padding, 0.0))

    @staticmethod
    def _read(cell: LSTMNCell, sequence: Float[Tensor, "B S I"]) -> tuple[Tensor, Tensor]:
        """Read from the first position to the last; return the hidden tape and the memory tape."""
        past, hidden, memories = cell.begin(sequence[:, 0]), [], []
        for x, entering in zip(sequence.unbind(dim=1), cell.cell.inputs(sequence).unbind(dim=1), strict=True):
            state, past, _ = cell(x, entering, past)
            hidden.append(state.hidden)
            memories.append(state.memory)
        return torch.stack(hidden, dim=1), torch.stack(memories, dim=1)


@decoders.register("lstmn")
class LSTMNDecoder(RecurrentDecoder):
    r"""A decoder of LSTMN cells with attention to the source fused in (Cheng et al. 2016, section 4).

    Deep fusion attends to both tapes of the source, `γ` (hidden) and `α` (memories), and a gate transfers the context
    of the memories into the memory of the lowest layer:

    .. math::
        b^t_j = u^\top \tanh(W_\gamma \gamma_j + W_x x_t + W_{\tilde\gamma} \tilde\gamma_{t-1}) \qquad
        p^t = \mathrm{softmax}(b^t) \qquad [\tilde\gamma_t; \tilde\alpha_t] = \sum_j p^t_j [\gamma_j; \alpha_j]

        r_t = \sigma(W_r [\tilde\gamma_t, x_t]) \qquad
        c_t = r_t \odot \tilde\alpha_t + f_t \odot \tilde c_t + i_t \odot \hat c_t \qquad h_t = o_t \odot \tanh(c_t)

    Shallow fusion leaves the cell unchanged and attends as Bahdanau's decoder does: with the last state to the hidden
    tape, and the context is a further input of the gates. Without attention and encoder it is a language model.
    If the encoder keeps no memories, its states are used for them; if its tapes have another width, `α` is projected.
    Differs from the paper: `r_t` has a bias; the tapes begin with the encoder's last state (empty in a language model);
    the readout may read the previous word and `\tilde\gamma_t` beside the state; there is one attention to the source,
    however many layers there are.
    """

    goes_on = True
    needs_source = False

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        config = replace(model.decoder, cell="lstm")
        super().__init__(replace(model, decoder=config), parts)
        embedded_width = parts.embedding.embedding_dim
        self.stack = nn.ModuleList(
            LSTMNCell(model, config.width if depth else embedded_width, config.width, depth)
            for depth in range(config.layers)
        )
        widths = [config.width, embedded_width]
        if isinstance(self.attention, TapeAttention):
            self.W_r = nn.Linear(parts.state_width + embedded_width, config.width)
            alike = parts.state_width == config.width
            self.transfer = None if alike else nn.Linear(parts.state_width, config.width, bias=False)
            widths.append(parts.state_width)
        elif self.attention is not None:
            self.context_inputs = nn.Linear(self.context_width, 4 * config.width, bias=False)
            widths.append(self.context_width)
        self.readout = readouts[config.readout](widths, config.readout_width)
        self._make_output(model, parts)

    def _build_attention(self, model: ModelConfig, parts: DecoderParts) -> Attention | TapeAttention | None:
        if model.attention is None or model.decoder.fusion == "shallow":
            return super()._build_attention(model, parts)
        return TapeAttention(model.attention, parts.embedding.embedding_dim + parts.state_width, parts.state_width)

    def _remember(self, attention: Attention | TapeAttention, encoded: Encoded) -> Memory:
        if isinstance(attention, Attention):
            return super()._remember(attention, encoded)
        states = self.context_dropout(encoded.states)
        memories = states if encoded.memories is None else self.context_dropout(encoded.memories)
        return attention.remember(states, memories, encoded.mask)

    def start(self, encoded: Encoded) -> RecurrentState:
        """Start the tapes with the encoder's last state."""
        state = super().start(encoded)
        has_source = self.summary.layers > 0
        past = [
            layer.begin(cell.hidden, cell if has_source else None)
            for layer, cell in zip(self._layers, state.cells, strict=True)
        ]
        return state._replace(past=tuple(past))

    @property
    def _layers(self) -> list[LSTMNCell]:
        return cast(list[LSTMNCell], list(self.stack))

    def _fed_width(self) -> int:
        # Fed from step to step: the last context of the source's hidden tape.
        return self.context_width // 2 if isinstance(self.attention, TapeAttention) else 0

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        inputs = self._layers[0].cell.inputs(embedded).unbind(dim=1)
        scales = self._scales_between_layers(tokens, state.cells[0].hidden.shape[-1])
        tops, contexts, attended_steps, own_extras = [], [], [], []
        for t, entering in enumerate(inputs):
            x = embedded[:, t]
            deep = isinstance(self.attention, TapeAttention)
            query = torch.cat([x, state.fed], dim=-1) if deep else state.cells[-1].hidden
            attended = self._look(query[:, None], state, look)
            context, transferred = attended.context[:, 0], None
            if deep:
                context, memories = context.chunk(2, dim=-1)
                kept = memories if self.transfer is None else self.transfer(memories)
                transferred = torch.sigmoid(self.W_r(torch.cat([context, x], dim=-1))) * kept
                state = state._replace(fed=context)
            elif self.attention is not None:
                entering = entering + self.context_inputs(context)
            state, top, extras = self._climb_tapes(x, entering, transferred, state, scales, t)
            state = state._replace(carry=attended.carry)
            tops.append(top)
            contexts.append(context)
            attended_steps.append(attended)
            own_extras.append(extras)
        parts = [torch.stack(tops, dim=1), embedded]
        if self.attention is not None:
            parts.append(torch.stack(contexts, dim=1))
        taught = self._taught(self.output_dropout(self.readout(parts)), attended_steps, state)
        return taught._replace(extras=add_extras([taught.extras, join_steps(own_extras)])), state

    def _climb_tapes(
        self,
        x: Float[Tensor, "B I"],
        entering: Float[Tensor, "B G"],
        transferred: Float[Tensor, "B D"] | None,
        state: RecurrentState,
        scales: list[Tensor],
        t: int,
    ) -> tuple[RecurrentState, Float[Tensor, "B D"], Extras]:
        """Run one step of all layers; return the new state, the output of the topmost, and the attention's extras."""
        stepped: list[Stepped] = [self._layers[0](x, entering, state.past[0], transferred)]
        below = stepped[0].state.hidden
        for depth, layer in enumerate(self._layers[1:], start=1):
            dropped = scaled(below, scales[depth - 1], t)
            stepped.append(layer(dropped, layer.cell.inputs(dropped), state.past[depth]))
            below = stepped[-1].state.hidden + dropped if self.residual else stepped[-1].state.hidden
        cells, pasts = tuple(one.state for one in stepped), tuple(one.past for one in stepped)
        extras = add_extras([one.extras for one in stepped])
        return state._replace(cells=cells, past=pasts), below, extras
