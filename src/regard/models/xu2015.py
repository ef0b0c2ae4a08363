"""The decoder that attends, gates the context, then steps."""

import torch
from torch import nn

from regard.attention import Attended
from regard.config import ModelConfig
from regard.models.bahdanau import BahdanauDecoder
from regard.models.recurrent_decoder import RecurrentState
from regard.models.registries import DecoderParts, decoders
from regard.shapes import Float, Tensor


@decoders.register("xu")
class XuDecoder(BahdanauDecoder):
    r"""Attend with the last state, scale the context, then step with it (Xu et al. 2015, sections 3.1.2 and 4.2.1).

    .. math::
        \hat z_t = \beta_t \sum_i \alpha_{ti} a_i \qquad \beta_t = \sigma(f_\beta(h_{t-1})) \qquad
        h_t = f(h_{t-1}, E y_{t-1}, \hat z_t)

    The gate decides how much of a word comes from the image, and how much from the words before. The paper's output
    layer (equation 7) is `model.decoder.readout=sum`, its initial state `model.decoder.start=mean`, its cell an LSTM,
    and its score additive. Without attention there is no gate.
    Differs from the paper: an LSTM's memory starts from zero, and only its hidden state from the mean of the `a_i`; the
    paper's `f_init` has two layers, here it has one.
    """

    def __init__(self, model: ModelConfig, parts: DecoderParts) -> None:
        super().__init__(model, parts)
        self.f_beta = None if self.attention is None else nn.Linear(model.decoder.width, 1)

    def _look(self, query: Float[Tensor, "B T Q"], state: RecurrentState, look: bool = True) -> Attended:
        attended = super()._look(query, state, look)
        if self.f_beta is None:
            return attended
        return attended._replace(context=torch.sigmoid(self.f_beta(query)) * attended.context)
