"""The recurrent decoder that attends to its own past."""

import torch
from torch.nn import functional

from regard.attention import Attended, Attention, Carry, Extras, build_attention
from regard.attention.attention import add_extras
from regard.config import ModelConfig
from regard.errors import ConfigError
from regard.layers.readout import readouts
from regard.models.protocol import Encoded, TeacherForced
from regard.models.recurrent_decoder import Past, RecurrentDecoder, RecurrentState
from regard.models.registries import DecoderParts, decoders
from regard.shapes import Float, Int, Tensor


@decoders.register("looking-back")
class SelfAttentiveRNNDecoder(RecurrentDecoder):
    r"""A recurrent network that attends to all its earlier states (Daniluk et al. 2017, section 2.1).

    .. math::
        h_t = f(h_{t-1}, E y_{t-1}) \qquad c_t = \mathrm{attend}(h_t, (h_1, \dots, h_{t-1})) \qquad
        \hat h_t = \tanh(W [c_t; h_t]) \qquad p(y_t) \propto \exp(W_s \hat h_t)

    `model.self_attention` configures the attention; at the first step there is no past, and `c_1 = 0`. No context
    enters the recurrence, so the layers run over all steps in one call, and so does the attention. If there is a
    source, it attends to that too, as Luong's decoder does, and the readout gets both contexts.
    Differs from the paper: the past is all of it, not a window of some states (that is `model.self_attention.reach=
    window`); any score; the same state serves as key, value and prediction vector, which the paper separates and finds
    to be worth a little.
    """

    goes_on = True
    needs_source = False

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__(model, parts)
        config = model.decoder
        if config.readout == "none":
            raise ConfigError(
                "The looking-back decoder attends after its recurrent step, so with model.decoder.readout=none nothing "
                "would use the context: set model.decoder.readout=tanh."
            )
        self._make_stack(config, parts.embedding.embedding_dim, config.width)
        self.own: Attention = build_attention(
            model.self_attention, config.width, config.width, itself=True, causal=True, position=model.positions
        )
        source = [] if self.attention is None else [self.context_width]
        widths = [config.width, self.own.context_width, *source]
        self.readout = readouts[config.readout](widths, config.readout_width)
        self._make_output(model, parts)

    def start(self, encoded: Encoded) -> RecurrentState:
        """Start with an empty past."""
        state = super().start(encoded)
        nothing = encoded.states.new_zeros(encoded.states.shape[0], self.own.context_width)
        return state._replace(past=(Past(None, nothing),))

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        if tokens.shape[1] == 1:
            scales = self._scales_between_layers(tokens, state.cells[0].hidden.shape[-1])
            lowest = self.layers[0](self.layers[0].inputs(embedded[:, 0]), state.cells[0])
            layers, top = self._climb(lowest, state.cells, scales, 0)
            own, past, extras = self._look_back(top[:, None], state.past[0])
            state = state._replace(cells=layers, past=(past,))
            hidden = top[:, None]
        else:
            hidden = self._run_layers(embedded, state)
            own, extras = self._look_back_at_once(hidden)
        attended = self._look(hidden, state, look)
        parts = [hidden, own] if self.attention is None else [hidden, own, attended.context]
        taught = self._taught(self.output_dropout(self.readout(parts)), [attended], state)
        taught = taught._replace(extras=add_extras([taught.extras, extras]))
        return taught, state._replace(carry=attended.carry)

    def _look_back(self, top: Float[Tensor, "B 1 D"], past: Past) -> tuple[Tensor, Past, Extras]:
        """Attend with one state to those before it, and append it to them."""
        if past.memory is None:
            real = torch.ones(top.shape[0], 1, dtype=torch.bool, device=top.device)
            return past.seen[:, None], Past(self.own.remember(top, real), past.seen), Extras()
        attended: Attended = self.own(top, past.memory, Carry(past.memory.mask.shape[1] - 1), False)
        after = Past(self.own.extend(past.memory, top), attended.context[:, 0])
        return attended.context, after, attended.extras

    def _look_back_at_once(self, hidden: Float[Tensor, "B T D"]) -> tuple[Tensor, Extras]:
        """Attend with every state but the first to those before it.

        Queries start at the second state, keys at the first: so a causal mask, which allows a query its own index,
        allows exactly the states before it.
        """
        before = hidden[:, :-1]
        real = torch.ones(before.shape[:2], dtype=torch.bool, device=hidden.device)
        attended: Attended = self.own(hidden[:, 1:], self.own.remember(before, real), Carry(), False)
        padded = (None if part is None else functional.pad(part, (1, 0)) for part in attended.extras)
        return functional.pad(attended.context, (0, 0, 1, 0)), Extras(*padded)
