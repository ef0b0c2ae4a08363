"""The decoder that attends, then steps."""

import torch

from regard.batched_weight_gradients import Linear
from regard.config import ModelConfig
from regard.layers.readout import readouts
from regard.models.protocol import TeacherForced
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentState
from regard.models.registries import DecoderParts, decoders
from regard.shapes import Int, Tensor


@decoders.register("bahdanau")
class BahdanauDecoder(RecurrentDecoder):
    r"""Attend with the last state, then step with the context (Bahdanau et al. 2014, section 3.1 and appendix A.2).

    .. math::
        c_i = \mathrm{attend}(s_{i-1}, h) \qquad s_i = f(s_{i-1}, E y_{i-1}, c_i) \qquad
        p(y_i) \propto \exp(y_i^\top W_o\, t(s_i, E y_{i-1}, c_i))

    Without attention `c_i` is the encoder's last state at every step, which makes it the decoder of Cho et al. 2014
    (section 2.2). With several layers the context enters the lowest, and the query is the state of the topmost.
    Everything that does not depend on the recurrence (`E y`, the readout, the output layer) is computed outside it.
    Differs from the paper: any number of layers, where the paper has one; see also the cells and readouts.
    """

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        embedded_width, config = parts.embedding.embedding_dim, model.decoder
        super().__init__(model, parts)
        self._make_stack(config, embedded_width, config.width)
        self.context_inputs = Linear(self.context_width, self.layers[0].input_size, bias=False)
        widths = [config.width, embedded_width, self.context_width]
        self.readout = readouts[config.readout](widths, config.readout_width)
        self._make_output(model, parts)

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        scales = self._scales_between_layers(tokens, state.cells[0].hidden.shape[-1])
        # Without attention the context never changes: its projection is computed once.
        fixed = self.context_inputs(state.fixed) if self.attention is None else None
        states, looks = [], []
        # Time first, so that the input of each step is contiguous.
        inputs = self.layers[0].inputs(embedded.transpose(0, 1))
        with self._looping(tokens, state):
            for t, entering in enumerate(inputs.unbind()):
                attended = self._look(state.cells[-1].hidden[:, None], state, look)
                both = self.context_inputs(attended.context.squeeze(1), entering) if fixed is None else entering + fixed
                layers, top = self._climb(self.layers[0](both, state.cells[0]), state.cells, scales, t)
                state = state._replace(cells=layers, carry=attended.carry)
                states.append(top)
                looks.append(attended)
        contexts = torch.cat([attended.context for attended in looks], dim=1)
        features = self.output_dropout(self.readout([torch.stack(states, dim=1), embedded, contexts]))
        return self._taught(features, looks, state), state
