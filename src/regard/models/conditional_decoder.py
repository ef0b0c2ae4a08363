"""The decoder that steps, attends, and steps again."""

import torch

from regard.config import ModelConfig
from regard.layers.readout import readouts
from regard.layers.rnn_cells import cells
from regard.models.protocol import TeacherForced
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentState
from regard.models.registries import DecoderParts, decoders
from regard.shapes import Int, Tensor


@decoders.register("conditional")
class ConditionalDecoder(RecurrentDecoder):
    r"""Two cells per step with attention between them (conditional GRU: Sennrich et al. 2017, section 2, and dl4mt).

    .. math::
        s'_j = \mathrm{GRU}_1(s_{j-1}, E y_{j-1}) \qquad c_j = \mathrm{attend}(s'_j, h) \qquad
        s_j = \mathrm{GRU}_2(s'_j, c_j) \qquad p(y_j) \propto \exp(W_o\, t(s_j, E y_{j-1}, c_j))

    So the query depends on the word just written, which Bahdanau's query does not include yet. Further layers read
    `s_j`, the topmost enters the readout, and queries stay those of the lowest. Without attention `c_j` is the
    encoder's last state at every step.
    Differs from the paper: the cells may be LSTMs, whose second takes over the first's memory; the readout has one bias
    or none, not one for each part.
    """

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__(model, parts)
        embedded_width, config = parts.embedding.embedding_dim, model.decoder
        self._make_stack(config, embedded_width, config.width)
        self.second = cells[config.cell](self.context_width, config.width)
        widths = [config.width, embedded_width, self.context_width]
        self.readout = readouts[config.readout](widths, config.readout_width)
        self._make_output(model, parts)

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        scales = self._scales_between_layers(tokens, state.cells[0].hidden.shape[-1])
        fixed = self.second.inputs(state.fixed) if self.attention is None else None
        states, looks = [], []
        # Time first, so that the input of each step is contiguous.
        inputs = self.layers[0].inputs(embedded.transpose(0, 1))
        with self._looping(tokens, state):
            for t, entering in enumerate(inputs.unbind()):
                between = self.layers[0](entering, state.cells[0])
                attended = self._look(between.hidden[:, None], state, look)
                seen = self.second.inputs(attended.context.squeeze(1)) if fixed is None else fixed
                layers, top = self._climb(self.second(seen, between), state.cells, scales, t)
                state = state._replace(cells=layers, carry=attended.carry)
                states.append(top)
                looks.append(attended)
        contexts = torch.cat([attended.context for attended in looks], dim=1)
        features = self.output_dropout(self.readout([torch.stack(states, dim=1), embedded, contexts]))
        return self._taught(features, looks, state), state
