"""How a decoder's first state comes from the encoder's last ones."""

import torch
from torch import nn

from regard.config import DecoderConfig, EncoderConfig
from regard.layers.cells import CellState
from regard.shapes import Float, Tensor


class Bridge(nn.Module):
    r"""Start each decoder layer from the encoder layer beside it, the topmost from the topmost.

    A decoder that steps before it looks takes the state over as it is, where cell, width and direction are the same
    (Sutskever et al. 2014; Luong et al. 2015). Otherwise `s_0 = \tanh(W_s h)` (Cho et al. 2014, section 2.2), where of
    two directions `h` is that of the backward one, which has just read the first word (Bahdanau et al. 2014, appendix
    A.2.2); without attention it is both, since nothing else of the source gets through. An LSTM's memory starts
    likewise, or from zero where the encoder has none. A deeper decoder starts its upper layers all from the topmost.
    """

    def __init__(self, encoder: EncoderConfig, decoder: DecoderConfig, has_attention: bool) -> None:
        super().__init__()
        self.encoder_layers = encoder.layers
        self.decoder_layers = decoder.layers
        both = encoder.bidirectional and not has_attention
        self.read_width = encoder.width * (2 if both else 1)
        self.has_memory = decoder.cell == "lstm"
        self.reads_memory = encoder.cell == "lstm"
        alike = (encoder.cell, encoder.width, encoder.bidirectional) == (decoder.cell, decoder.width, False)
        kinds = 1 + (self.has_memory and self.reads_memory)
        self.W_s = (
            None
            if alike and decoder.kind == "luong"
            else nn.ModuleList(nn.Linear(self.read_width, decoder.width) for _ in range(kinds * decoder.layers))
        )

    def forward(self, summary: Float[Tensor, "B L E"]) -> tuple[CellState, ...]:
        """Return the first state of every decoder layer."""
        states = []
        for layer in range(self.decoder_layers):
            beside = min(layer + max(self.encoder_layers - self.decoder_layers, 0), self.encoder_layers - 1)
            hidden = self._carry(summary[:, beside], layer)
            if not self.has_memory:
                states.append(CellState(hidden))
            elif self.reads_memory:
                memory = summary[:, self.encoder_layers + beside]
                states.append(CellState(hidden, self._carry(memory, self.decoder_layers + layer)))
            else:
                states.append(CellState(hidden, torch.zeros_like(hidden)))
        return tuple(states)

    def _carry(self, final: Float[Tensor, "B E"], number: int) -> Float[Tensor, "B D"]:
        if self.W_s is None:
            return final
        return torch.tanh(self.W_s[number](final[:, -self.read_width :]))
