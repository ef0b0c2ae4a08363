"""The decoder that looks, weighs what it saw against what it knows, then steps."""

import torch
from torch import nn

from regard.attention import Attended
from regard.config import ModelConfig
from regard.models.bahdanau import BahdanauDecoder
from regard.models.recurrent_decoder import RecurrentState
from regard.models.registries import Parts, decoders
from regard.shapes import Float, Tensor


@decoders.register("xu")
class XuDecoder(BahdanauDecoder):
    r"""Look with the last state, scale what was seen, then step with it (Xu et al. 2015, sections 3.1.2 and 4.2.1).

    .. math::
        \hat z_t = \beta_t \sum_i \alpha_{ti} a_i \qquad \beta_t = \sigma(f_\beta(h_{t-1})) \qquad
        h_t = f(h_{t-1}, E y_{t-1}, \hat z_t)

    The gate tells how much of a word comes from the image, and how much from the words before. The paper's output layer
    (equation 7) is `model.decoder.readout=sum`, its first state is made by `model.decoder.start=mean`, its cell is an
    LSTM, and its score is additive. Without attention there is no gate.
    Differs from the paper: an LSTM's memory starts from zero, its hidden state alone from the mean of the `a_i`; both
    layers of the paper's `f_init` are one here.
    """

    def __init__(self, model: ModelConfig, parts: Parts) -> None:
        super().__init__(model, parts)
        self.f_beta = None if self.attention is None else nn.Linear(model.decoder.width, 1)

    def _look(self, query: Float[Tensor, "B T Q"], state: RecurrentState, look: bool = True) -> Attended:
        attended = super()._look(query, state, look)
        if self.f_beta is None:
            return attended
        return attended._replace(context=torch.sigmoid(self.f_beta(query)) * attended.context)
