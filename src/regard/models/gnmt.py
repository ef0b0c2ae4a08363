"""Google's translation model (GNMT): deep stacks of LSTMs with residuals."""

import torch

from regard.batched_weight_gradients import Linear
from regard.config import EncoderConfig, ModelConfig
from regard.layers.dropout import Dropout
from regard.layers.readout import readouts
from regard.models.protocol import Summary, TeacherForced
from regard.models.recurrent_decoder import RecurrentDecoder, RecurrentState
from regard.models.recurrent_encoder import RecurrentEncoder
from regard.models.registries import DecoderParts, decoders, encoders
from regard.shapes import Float, Int, Tensor


@encoders.register("gnmt")
class GNMTEncoder(RecurrentEncoder):
    r"""Only the lowest layer is bidirectional; residuals from the third on (Wu et al. 2016, sections 3.1 and 3.2).

    .. math::
        x^1_t = [\overrightarrow m_t; \overleftarrow m_t] \qquad
        c^i_t, m^i_t = \mathrm{LSTM}_i(c^i_{t-1}, m^i_{t-1}, x^{i-1}_t) \qquad x^i_t = m^i_t + x^{i-1}_t \quad (i \ge 3)

    With one direction the paper could run each layer on a device of its own, one step behind the layer below.
    With several layers, the lowest one's summary is that of its backward direction.
    Differs from the paper: cells may be GRUs, and dropout acts on the input of every layer.
    """

    residual_from = 2

    def __init__(self, model: ModelConfig, dropout: Dropout) -> None:
        super().__init__(model, dropout)
        config = model.encoder
        if config.layers > 1:
            self.state_width = config.width
            self.summary = Summary(config.cell, config.layers, config.width)

    @staticmethod
    def _directions(config: EncoderConfig, depth: int) -> int:
        return 2 if config.bidirectional and depth == 0 else 1

    def _final(self, final: Float[Tensor, "R B D"]) -> Float[Tensor, "B E"]:
        # The summary has one width: of several layers, the lowest gives one direction; a single layer gives both.
        return final[-1] if self.summary.directions == 1 else super()._final(final)


@decoders.register("gnmt")
class GNMTDecoder(RecurrentDecoder):
    r"""The lowest layer attends, and all layers read its context (Wu et al. 2016, section 3 and figure 1).

    .. math::
        a_t = \mathrm{attend}(m^1_{t-1}, x) \qquad m^1_t = \mathrm{LSTM}_1(m^1_{t-1}, [E y_{t-1}; a_t]) \qquad
        m^i_t = \mathrm{LSTM}_i(m^i_{t-1}, [x^{i-1}_t; a_t]) \qquad x^i_t = m^i_t + x^{i-1}_t \quad (i \ge 3)

    The query is the lowest layer's output of the previous step (equation 4), so only this layer and the attention need
    a loop over the steps: the layers above run over all of them in one call. The output layer reads the topmost
    (`readout=none`); another readout reads the context too. Without attention `a_t` is the encoder's last state.
    Differs from the paper: cells may be GRUs. The paper does not say how the decoder starts; here each layer continues
    from the encoder layer at the same depth.
    """

    goes_on = True

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__(model, parts)
        config = model.decoder
        self._make_stack(config, parts.embedding.embedding_dim, config.width + self.context_width)
        self.context_inputs = Linear(self.context_width, self.layers[0].input_size, bias=False)
        self.readout = readouts[config.readout]([config.width, self.context_width], config.readout_width)
        self._make_output(model, parts)

    def _run(
        self, tokens: Int[Tensor, "B T"], state: RecurrentState, look: bool
    ) -> tuple[TeacherForced, RecurrentState]:
        embedded = self.dropout(self.embedding(tokens, state.carry.position))
        fixed = self.context_inputs(state.fixed) if self.attention is None else None
        above = state.cells[1:]
        states, looks = [], []
        # Time first, so that the input of each step is contiguous.
        inputs = self.layers[0].inputs(embedded.transpose(0, 1))
        with self._looping(tokens, state):
            for entering in inputs.unbind():
                attended = self._look(state.cells[0].hidden[:, None], state, look)
                both = self.context_inputs(attended.context.squeeze(1), entering) if fixed is None else entering + fixed
                lowest = self.layers[0](both, state.cells[0])
                state = state._replace(cells=(lowest, *above), carry=attended.carry)
                states.append(lowest.hidden)
                looks.append(attended)
        contexts = torch.cat([attended.context for attended in looks], dim=1)
        top, state = self._run_above(torch.stack(states, dim=1), contexts, state)
        features = self.output_dropout(self.readout([top, contexts]))
        return self._taught(features, looks, state), state

    def _run_above(
        self, outputs: Float[Tensor, "B T D"], contexts: Float[Tensor, "B T C"], state: RecurrentState
    ) -> tuple[Float[Tensor, "B T D"], RecurrentState]:
        """Run the layers above the lowest; over several steps (training) the final state is not computed."""
        after = [state.cells[0]]
        for depth, layer in enumerate(self.layers[1:], start=1):
            entering = self.dropout(outputs)
            both = torch.cat([entering, contexts.to(entering.dtype)], dim=-1)
            if outputs.shape[1] == 1:
                after.append(layer(layer.inputs(both[:, 0]), state.cells[depth]))
                outputs = after[-1].hidden[:, None]
            else:
                outputs = layer.run(both, state.cells[depth])
            if self.residual and depth >= GNMTEncoder.residual_from:
                outputs = outputs + entering
        return outputs, state._replace(cells=tuple(after)) if outputs.shape[1] == 1 else state
