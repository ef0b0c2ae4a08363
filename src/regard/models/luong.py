"""The decoder that steps, then attends."""

import torch

from regard.attention import Attended
from regard.batched_weight_gradients import Linear
from regard.config import ModelConfig
from regard.layers.readout import readouts
from regard.models.protocol import TeacherForced
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentState
from regard.models.registries import DecoderParts, decoders
from regard.shapes import Float, Int, Tensor


@decoders.register("luong")
class LuongDecoder(RecurrentDecoder):
    r"""Step, then attend with the new state (Luong et al. 2015, section 3).

    .. math::
        h_t = f(h_{t-1}, [E y_{t-1}; \tilde h_{t-1}]) \qquad c_t = \mathrm{attend}(h_t, \bar h) \qquad
        \tilde h_t = \tanh(W_c [c_t; h_t]) \qquad p(y_t) \propto \exp(W_s \tilde h_t)

    With input feeding (section 3.3) the attentional vector enters the next step; without it, the layers run over all
    steps in one call, and so does the attention. Without attention the readout has the state alone, which makes it the
    decoder of Sutskever et al. 2014.
    Differs from the paper: the output layer has a bias.
    """

    goes_on = True
    needs_source = False

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__(model, parts)
        config = model.decoder
        self._make_stack(config, parts.embedding.embedding_dim, config.width)
        widths = [config.width] if self.attention is None else [config.width, self.context_width]
        self.readout = readouts[config.readout](widths, config.readout_width)
        self.fed_inputs = (
            Linear(self.readout.output_width, self.layers[0].input_size, bias=False) if config.input_feeding else None
        )
        self._make_output(model, parts)

    def _fed_width(self) -> int:
        return 0 if self.fed_inputs is None else self.fed_inputs.in_features

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        if self.fed_inputs is None and tokens.shape[1] > 1:
            return self._run_at_once(embedded, state, look)
        scales = self._scales_between_layers(tokens, state.cells[0].hidden.shape[-1])
        features, looks = [], []
        # Time first, so that the input of each step is contiguous.
        inputs = self.layers[0].inputs(embedded.transpose(0, 1))
        with self._looping(tokens, state):
            for t, entering in enumerate(inputs.unbind()):
                fed = entering if self.fed_inputs is None else self.fed_inputs(state.fed, entering)
                layers, top = self._climb(self.layers[0](fed, state.cells[0]), state.cells, scales, t)
                attentional, attended = self._merge(top[:, None], state, look)
                fed_on = state.fed if self.fed_inputs is None else attentional.squeeze(1)
                state = state._replace(cells=layers, fed=fed_on, carry=attended.carry)
                features.append(attentional)
                looks.append(attended)
        return self._taught(self.output_dropout(torch.cat(features, dim=1)), looks, state), state

    def _run_at_once(
        self, embedded: Float[Tensor, "B T E"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        features, attended = self._merge(self._run_layers(embedded, state), state, look)
        # Only teacher forcing comes here, and it does not use the state after the last step.
        return self._taught(self.output_dropout(features), [attended], state), state

    def _merge(self, hidden: Float[Tensor, "B T D"], state: RecurrentState, look: bool) -> tuple[Tensor, Attended]:
        attended = self._look(hidden, state, look)
        parts = [hidden] if self.attention is None else [hidden, attended.context]
        return self.readout(parts), attended
